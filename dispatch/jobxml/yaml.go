package jobxml

import (
	"bytes"
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Options say how a configuration is written.
type Options struct {
	From      string // the name of the job.xml, for a comment
	Passwords bool   // write passwords as they are; else as variables, which are to be set
}

// YAML returns a configuration with the sections admin and dispatch.
func (i *Import) YAML(o Options) ([]byte, error) {
	servers := mapping()
	for _, s := range i.servers {
		password := plain("${" + s.env + "}")
		if o.Passwords {
			password = text(string(s.password))
		}
		put(servers, s.name, mapping("url", text(s.url()), "username", text(s.user), "password", password))
	}
	jobs := &yaml.Node{Kind: yaml.SequenceNode}
	for _, j := range i.jobs {
		jobs.Content = append(jobs.Content, j.node(i.conf))
	}
	root := mapping(
		"admin", flow(mapping("address", text(i.admin))),
		"dispatch", mapping("servers", servers, "defaults", i.conf.node(), "jobs", jobs),
	)
	var from string
	if o.From != "" {
		from = " from " + strconv.QuoteToASCII(o.From)
	}
	root.HeadComment = "Written by shardmq dispatch import" + from + ".\nTry it: shardmq dispatch validate --config FILE"
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if err := enc.Encode(&yaml.Node{Kind: yaml.DocumentNode, Content: []*yaml.Node{root}}); err != nil {
		return nil, fmt.Errorf("write the configuration: %w", err)
	}
	if err := enc.Close(); err != nil {
		return nil, fmt.Errorf("write the configuration: %w", err)
	}
	return out.Bytes(), nil
}

// Variables are the environment variables that the configuration needs without Options.Passwords, in the servers' order.
func (i *Import) Variables() (out []string) {
	for _, s := range i.servers {
		out = append(out, s.env)
	}
	return out
}

func (c conf) node() *yaml.Node {
	endpoint := mapping("url", text(c.url))
	if c.host != "" {
		put(endpoint, "host", text(c.host))
	}
	return mapping(
		"executors", number(c.count),
		"timeout", duration(cmp.Or(c.timeout, defaultTimeout)),
		"target", endpoint,
		"request", flow(mapping("mode", text("form"), "encoding", text(c.encoding))),
		"ack-when", flow(mapping("status", &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle, Content: []*yaml.Node{number(200)}}, "body", text("ok"))),
		"retry", flow(mapping("max", text("unlimited"))),
	)
}

func (j *job) node(c conf) *yaml.Node {
	n := mapping("name", text(j.name), "server", text(j.server.name), "queue", text(j.queue),
		"declare", flow(mapping("exchange", text(j.exchange), "type", text(j.kind), "key", text(""))))
	if j.count != 0 {
		put(n, "executors", number(j.count))
	}
	if j.prefetch != 0 {
		put(n, "prefetch", number(j.prefetch))
	}
	if j.timeout != 0 && j.timeout != c.timeout {
		put(n, "timeout", duration(j.timeout))
	}
	endpoint := mapping()
	if j.url != "" {
		put(endpoint, "url", text(j.url))
	}
	if j.host != "" {
		put(endpoint, "host", text(j.host))
	}
	if len(endpoint.Content) > 0 {
		put(n, "target", endpoint)
	}
	if j.encoding != "" {
		put(n, "request", flow(mapping("encoding", text(j.encoding))))
	}
	if j.drop {
		put(n, "retry", flow(mapping("max", number(1), "then", text("drop"))))
	}
	return n
}

// mapping makes a mapping of keys and values in turn.
func mapping(pairs ...any) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode}
	for i := 0; i+1 < len(pairs); i += 2 {
		put(n, pairs[i].(string), pairs[i+1].(*yaml.Node))
	}
	return n
}

// put adds a key, in which nothing is expanded.
func put(n *yaml.Node, key string, value *yaml.Node) {
	n.Content = append(n.Content, plain(key), value)
}

func flow(n *yaml.Node) *yaml.Node {
	n.Style = yaml.FlowStyle
	return n
}

func plain(s string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s} }

// text is a value that is meant as it is: what looks like a variable in it is none.
func text(s string) *yaml.Node { return plain(strings.ReplaceAll(s, "$", "$$")) }

func number(n int) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: strconv.Itoa(n)}
}

func duration(d time.Duration) *yaml.Node { return plain(d.String()) }
