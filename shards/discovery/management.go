package discovery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	// maxAnswer bounds what is read of one answer. A node takes some kilobytes.
	maxAnswer = 8 << 20
	// answerTimeout bounds one answer, in addition to the caller's context.
	answerTimeout = 5 * time.Second
)

// Management is a Source that asks the HTTP API of RabbitMQ's management plugin.
// It takes a user with the tag monitoring.
type Management struct {
	// URL is where the API is, such as http://rabbit.example.com:15672, with or
	// without the path of a proxy in front of it.
	URL                string
	Username, Password string
	// Host is a template of the host that a node is reached on: {host} and {fqdn}
	// stand for the part after the @ of its name, up to the first dot and whole;
	// default {fqdn}.
	Host string
	// Port is where nodes serve AMQP; 0 = as each one says, without TLS if it does
	// both.
	Port int
	// TLS: of each node's ports, the one with TLS.
	TLS bool
	// Zone is given to all the nodes.
	Zone string
	// Client replaces http.DefaultClient, e.g. to add certificates. Redirects are
	// refused whatever it says: they would take the password elsewhere.
	Client *http.Client
}

// Errors of Management, to be matched with errors.Is.
var (
	ErrRedirected = errors.New("the management API answers with a redirect, which is not followed")
	errTooLong    = fmt.Errorf("the answer is longer than %d MiB", maxAnswer>>20)
)

// StatusError is an answer other than 200.
type StatusError struct {
	Path string // of the request, below URL
	Code int    // HTTP status
}

// Error implements error.
func (e *StatusError) Error() string {
	text := fmt.Sprintf("management API: %s answers %d %s", e.Path, e.Code, http.StatusText(e.Code))
	switch e.Code {
	case http.StatusUnauthorized:
		text += ": the user needs the tag monitoring, or its password is wrong"
	case http.StatusNotFound:
		text += ": is this the management plugin's address?"
	}
	return text
}

type managedNode struct {
	Name    string `json:"name"`
	Running bool   `json:"running"`
}

type overview struct {
	Listeners []listener `json:"listeners"`
}

type listener struct {
	Node     string `json:"node"`
	Protocol string `json:"protocol"`
	Port     int    `json:"port"`
}

// Nodes implements Source. Of a node that does not run it is known that it is a
// member, but not on which port it will be reached: it has an address only if Port
// says so, or all others use the same.
func (m Management) Nodes(ctx context.Context) ([]Node, error) {
	var members []managedNode
	if err := m.get(ctx, "/api/nodes", &members); err != nil {
		return nil, err
	}
	ports, usual, err := m.ports(ctx)
	if err != nil {
		return nil, err
	}
	var nodes []Node
	for _, member := range members {
		_, host, ok := strings.Cut(member.Name, "@")
		if !ok || host == "" {
			return nil, fmt.Errorf("management API: %q is not the name of a node", member.Name)
		}
		port := ports[member.Name]
		if port == 0 {
			port = usual
		}
		node := Node{Name: member.Name, Zone: m.Zone}
		if port != 0 {
			node.Address = net.JoinHostPort(m.host(host), strconv.Itoa(port))
		}
		nodes = append(nodes, node)
	}
	return sorted(nodes), nil
}

func (m Management) host(host string) string {
	if m.Host == "" {
		return host
	}
	return nodeName(m.Host, host)
}

// ports returns the port of each node that tells, and the one of the others: 0 if
// it cannot be told.
func (m Management) ports(ctx context.Context) (ports map[string]int, usual int, err error) {
	if m.Port != 0 {
		return nil, m.Port, nil
	}
	var o overview
	if err := m.get(ctx, "/api/overview", &o); err != nil {
		return nil, 0, err
	}
	protocol := "amqp"
	if m.TLS {
		protocol = "amqp/ssl"
	}
	ports = make(map[string]int)
	for _, l := range o.Listeners {
		if l.Protocol == protocol && ports[l.Node] == 0 && l.Port > 0 && l.Port < 1<<16 {
			ports[l.Node] = l.Port
		}
	}
	for _, port := range ports {
		if usual != 0 && port != usual {
			return ports, 0, nil
		}
		usual = port
	}
	return ports, usual, nil
}

// get asks for a JSON document.
func (m Management) get(ctx context.Context, path string, v any) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(m.URL, "/")+path, nil)
	if err != nil {
		return fmt.Errorf("management API: %w", withoutSecret(err))
	}
	request.SetBasicAuth(m.Username, m.Password)
	request.Header.Set("Accept", "application/json")
	response, err := m.client().Do(request)
	if err != nil {
		return fmt.Errorf("management API: %w", withoutSecret(err))
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return &StatusError{Path: path, Code: response.StatusCode}
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	switch {
	case err != nil:
		return fmt.Errorf("management API: %s: %w", path, err)
	case len(body) > maxAnswer:
		return fmt.Errorf("management API: %s: %w", path, errTooLong)
	}
	if err := json.Unmarshal(body, v); err != nil {
		return fmt.Errorf("management API: %s: %w", path, err)
	}
	return nil
}

func (m Management) client() *http.Client {
	client := *http.DefaultClient
	if m.Client != nil {
		client = *m.Client
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return ErrRedirected }
	return &client
}

// withoutSecret takes the URL out of an error of net/http or net/url: the user may
// have put a password into it.
func withoutSecret(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}
