package config

import "strings"

func upstream(c *Config) object {
	u := &c.Upstream
	var schemes []string // of nodes' addresses
	return object{
		fields: []field{
			{"nodes", "required without discovery", list{example: nodesExample, atLeast: 1, item: func() shape { return node(u, &schemes) }}},
			{"discovery", "", findNodes(u)},
			{"zone", "", filled("the zone this proxy is in, e.g. eu-1a", &u.Zone)},
			{"prefer", string(LeastConnections), oneOf(func(v string) { u.Prefer = Prefer(v) },
				string(LeastConnections), string(PreferZone), string(ListOrder))},
			{"control", "", control(&u.Control)},
			{"dial-timeout", DefaultDialTimeout.String(), duration(&u.DialTimeout)},
			{"tls", "", upstreamTLS(&u.TLS, &u.Identities)},
			{"proxy-protocol", "off", oneOf(func(v string) { u.ProxyProtocol = map[string]int{"v1": 1, "v2": 2}[v] }, "off", "v1", "v2")},
		},
		done: func(p *parser, at place) {
			for i, scheme := range schemes {
				u.Nodes[i].TLS = scheme == "amqps" || scheme == "" && p.given(at, "tls")
			}
			if d := u.Discovery; d != nil {
				d.TLS = p.given(at, "tls") || d.SRV != nil && strings.HasPrefix(d.SRV.Name, "_amqps.")
			}
			if !p.given(at, "nodes") && !p.given(at, "discovery") {
				p.problem(at.node.Line, at.key("nodes"), "is missing; list RabbitMQ's nodes, e.g. %s, or say how to find them, "+
					"e.g. discovery: %s", nodesExample, discoveryExample)
			}
			if u.Prefer == PreferZone && !p.given(at, "zone") {
				p.faultAt(at.key("prefer"), "is zone, but this proxy's zone is not given; add zone: NAME beside it, "+
					"and a zone to each of nodes")
			}
		},
	}
}

func node(u *Upstream, schemes *[]string) object {
	u.Nodes, *schemes = append(u.Nodes, Node{}), append(*schemes, "")
	i := len(u.Nodes) - 1
	return object{
		fields: []field{
			{"name", "learned from the broker, if it is the only node", scalar{
				kind: "text", want: "the node's name, e.g. rabbit@a",
				set: func(v string) error {
					u.Nodes[i].Name = v
					return CheckNodeName(v)
				},
			}},
			{"address", required, scalar{
				kind: "host:port", want: "host:port, e.g. \"a:5672\", or amqps://host:port for TLS",
				set: func(v string) (err error) {
					u.Nodes[i].Address, (*schemes)[i], err = nodeAddress(v)
					return err
				},
			}},
			{"zone", "", filled("the zone the node is in, e.g. eu-1a", &u.Nodes[i].Zone)},
		},
		missing: map[string]string{"address": `give host:port, e.g. address: "a:5672"`},
	}
}

func control(ctl *Control) object {
	return object{
		fields: []field{
			{"username", DefaultUsername, filled("a user name", &ctl.Username)},
			{"password", DefaultPassword, secret("a password, best as \"${SHARDMQ_PASSWORD}\"", &ctl.Password)},
		},
		done: func(p *parser, at place) {
			if p.given(at, "username") != p.given(at, "password") {
				p.fault(at, "has only one of username and password; give both, or neither for %s/%s",
					DefaultUsername, DefaultPassword)
			}
		},
	}
}

// findNodes says how nodes are found: one of its two ways.
func findNodes(u *Upstream) object {
	d := &Discovery{Interval: DefaultDiscoveryInterval}
	return object{
		fields: []field{
			{"srv", "", srv(d)},
			{"management", "", management(d)},
			{"interval", DefaultDiscoveryInterval.String(), duration(&d.Interval)},
		},
		done: func(p *parser, at place) {
			u.Discovery = d
			if p.given(at, "srv") == p.given(at, "management") {
				p.fault(at, "needs one of srv and management; give e.g. %s", discoveryExample)
			}
		},
	}
}

func srv(d *Discovery) object {
	s := &SRV{NodeName: DefaultNodeName}
	return object{
		fields: []field{
			{"name", required, filled("a DNS name, e.g. _amqp._tcp.rabbit.example", &s.Name)},
			{"node-name", DefaultNodeName, text("a node's name with {host} or {fqdn} in it", func(v string) error {
				s.NodeName = v
				return CheckNodeTemplate(v)
			})},
		},
		missing: map[string]string{"name": "give the name of the SRV records, e.g. name: _amqp._tcp.rabbit.example"},
		done:    func(*parser, place) { d.SRV = s },
	}
}

func management(d *Discovery) object {
	m := &Management{}
	return object{
		fields: []field{
			{"url", required, text("the URL of RabbitMQ's management API", func(v string) error {
				m.URL = v
				return CheckManagement(v)
			})},
			{"username", "the control user's", filled("a user name", &m.Username)},
			{"password", "the control user's", secret("a password, best as \"${SHARDMQ_PASSWORD}\"", &m.Password)},
			{"host", "{fqdn}", text("a host with {host} or {fqdn} in it", func(v string) error {
				m.Host = v
				return CheckHostTemplate(v)
			})},
			{"port", "as RabbitMQ says", whole(1, 65535, &m.Port)},
		},
		missing: map[string]string{"url": "give the URL of RabbitMQ's management API, e.g. url: \"http://a:15672\""},
		done: func(p *parser, at place) {
			d.Management = m
			if p.given(at, "username") != p.given(at, "password") {
				p.fault(at, "has only one of username and password; give both, or neither for those of upstream.control")
			}
		},
	}
}
