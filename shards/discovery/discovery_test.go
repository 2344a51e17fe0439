package discovery

import (
	"context"
	"errors"
	"net"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestCheckNodeName(t *testing.T) {
	for template, ok := range map[string]bool{
		DefaultNodeName: true, "rabbit@{fqdn}": true, "r-{host}@{fqdn}": true, "rabbit@{host}.internal": true,
		"": false, "rabbit@host": false, "{host}": false, "rabbit@{hots}": false, "@{host}": false, "rabbit@ {host}": false,
		"rabbit@{host}@x": false, "{host}@": false, "rabbit@{host}}": false,
	} {
		if ok {
			require.NoError(t, CheckNodeName(template), template)
		} else {
			require.ErrorIs(t, CheckNodeName(template), errTemplate, template)
		}
	}
}

// resolver answers one name.
type resolver struct {
	name    string
	records []*net.SRV
	err     error
}

func (r resolver) LookupSRV(_ context.Context, service, proto, name string) (string, []*net.SRV, error) {
	if service != "" || proto != "" || name != r.name {
		return "", nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
	}
	return name, r.records, r.err
}

func TestSRV(t *testing.T) {
	const name = "_amqp._tcp.rabbit.example.com"
	records := []*net.SRV{
		{Target: "b.example.com.", Port: 5673, Priority: 1}, {Target: "a.example.com.", Port: 5672, Priority: 9},
		{Target: "b.example.com.", Port: 5673, Priority: 2}, {Target: "10.0.0.7.", Port: 5672},
	}
	for _, tt := range []struct {
		name string
		srv  SRV
		want []Node
	}{
		{"short names", SRV{Resolver: resolver{name, records, nil}}, []Node{
			{"rabbit@10.0.0.7", "10.0.0.7:5672", ""}, {"rabbit@a", "a.example.com:5672", ""}, {"rabbit@b", "b.example.com:5673", ""},
		}},
		{"long names", SRV{NodeName: "mq@{fqdn}", Zone: "z", Resolver: resolver{name, records[:2], nil}}, []Node{
			{"mq@a.example.com", "a.example.com:5672", "z"}, {"mq@b.example.com", "b.example.com:5673", "z"},
		}},
		{"none", SRV{Resolver: resolver{name, nil, nil}}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.srv.Name = name
			nodes, err := tt.srv.Nodes(t.Context())
			require.NoError(t, err)
			require.Equal(t, tt.want, nodes)
		})
	}
	// Two ports of one host, in the order that the day brings.
	ports := []*net.SRV{{Target: "a.example.com.", Port: 5671}, {Target: "a.example.com.", Port: 5672}}
	for range 2 {
		nodes, err := SRV{Name: name, Resolver: resolver{name, ports, nil}}.Nodes(t.Context())
		require.NoError(t, err)
		require.Equal(t, []Node{{"rabbit@a", "a.example.com:5671", ""}}, nodes)
		slices.Reverse(ports)
	}
	boom := errors.New("boom")
	_, err := SRV{Name: name, Resolver: resolver{name, records, boom}}.Nodes(t.Context())
	require.ErrorIs(t, err, boom)
	require.ErrorContains(t, err, name)
	_, err = SRV{Name: name, Resolver: resolver{name, []*net.SRV{{Target: "."}}, nil}}.Nodes(t.Context())
	require.ErrorIs(t, err, errNoService)
	_, err = SRV{Name: "other", Resolver: resolver{name: name}}.Nodes(t.Context())
	var dns *net.DNSError
	require.ErrorAs(t, err, &dns)
}
