// Package config reads shardmq's YAML file.
//
// The file is read strictly: a key that is not known, a key given twice or a
// value of the wrong type is a problem, and every problem of a file is
// reported in one run, each with file, line, key and remedy. ${NAME} in a
// value stands for an environment variable; it is replaced after the YAML has
// been parsed, so that a variable's content is never taken for syntax.
//
// The keys are declared once, in schema.go; docs/config.md is compared with
// that declaration by a test.
package config

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"time"

	"github.com/shardmq/shardmq/config/certs"
	"github.com/shardmq/shardmq/dispatch"
	"github.com/shardmq/shardmq/shards"
	"github.com/shardmq/shardmq/shards/discovery"
)

// Values that hold where neither the file nor a flag says otherwise.
const (
	DefaultListen           = ":5673"
	DefaultUsername         = "guest"
	DefaultPassword         = "guest"
	DefaultVhost            = "/"
	DefaultDialTimeout      = 5 * time.Second
	DefaultHandshakeTimeout = 10 * time.Second
	DefaultDrainTimeout     = 10 * time.Second
	// DefaultDiscoveryInterval is the time between two looks for nodes.
	DefaultDiscoveryInterval = discovery.DefaultInterval
	DefaultNodeName          = "rabbit@{host}"
	DefaultLogLevel          = "info"
	DefaultLogFormat         = "console"
)

// maxFileSize bounds what Load reads: far more than any real configuration,
// and little enough that pointing at the wrong file does no harm.
const maxFileSize = 1 << 20

// Config is a complete, valid configuration. It is not changed after Load. One
// with Dispatch may be without an Upstream that says where RabbitMQ is: such a
// one is no configuration of a proxy, see CheckProxy.
type Config struct {
	Listeners []Listener
	Upstream  Upstream
	Proxy     Proxy
	Policies  []*shards.Policy // in the order of the file
	Admin     Admin
	Log       Log
	Dispatch  *dispatch.Settings // nil: none
	Warnings  Problems           // what works, but ought to be otherwise
}

// Listener is an address on which clients connect.
type Listener struct {
	Address string               // "host:port" or ":port"; port 0 lets the system choose
	TLS     *certs.ServerOptions // nil: plain AMQP
	// ProxyProtocol says whose word about clients' addresses is taken; nil: nobody's.
	ProxyProtocol *ProxyProtocol
	Identity      string // of Upstream.Identities; "" = that of the client's certificate, if any
}

// ProxyProtocol is how a listener takes PROXY protocol headers.
type ProxyProtocol struct {
	Trusted  []netip.Prefix // who may send one
	Optional bool           // they need not
}

// Upstream is the RabbitMQ that the proxy stands before.
type Upstream struct {
	Nodes       []Node     // those listed; at least one unless Discovery is set
	Discovery   *Discovery // nil: there are no other nodes
	Zone        string     // that this proxy is in; "" = none
	Prefer      Prefer
	Control     Control
	DialTimeout time.Duration
	TLS         *certs.ClientOptions // nil: not given, which nodes with TLS take for system's CAs and no certificate
	Identities  []Identity
	// ProxyProtocol is the version of the header that connections to nodes begin with; 0 = none.
	ProxyProtocol int
}

// Identity is a certificate that the proxy shows to nodes in a client's stead.
type Identity struct {
	Name       string
	CommonName string        // of the client's own certificate; "" = it does not go by that
	Subject    certs.Subject // likewise; at most one of the two is given
	TLS        certs.ClientOptions
}

// Node is one RabbitMQ node. Name is empty only if it is the sole node: the
// proxy then learns it from the broker.
type Node struct {
	Name    string
	Address string // host:port
	Zone    string // "" = none
	TLS     bool
}

// Prefer says which node a client's connection goes to.
type Prefer string

// The ways to choose a node. Nodes that cannot be reached are always tried last.
const (
	LeastConnections Prefer = "least-connections" // the one with the fewest clients of this proxy
	PreferZone       Prefer = "zone"              // of the nodes in the proxy's zone, else of all, the one with the fewest
	ListOrder        Prefer = "list-order"        // the first listed
)

// Discovery says how nodes are found that the file does not list: by one of SRV
// and Management, the other is nil.
type Discovery struct {
	SRV        *SRV
	Management *Management
	Interval   time.Duration
	TLS        bool // the nodes that are found have TLS
}

// SRV finds nodes in DNS.
type SRV struct {
	Name     string // of the SRV records
	NodeName string // with {host} and {fqdn} for a target's short and full host name
}

// Management finds nodes through RabbitMQ's management API.
type Management struct {
	URL      string
	Username string // "" = those of Control, as is Password
	Password Secret
	Host     string // with {host} and {fqdn} for the short and full host in a node's name; "" = {fqdn}
	Port     int    // of AMQP on every node; 0 = what the API says
}

// Admin is the HTTP listener for health checks, metrics and jobs.
type Admin struct {
	Address string // "" = none
	Token   Secret // that changing jobs takes; "" = nobody can
}

// Control holds the credentials of the proxy's own connections.
type Control struct {
	Username string
	Password Secret
}

// Proxy holds the limits of client connections.
type Proxy struct {
	HandshakeTimeout time.Duration
	DrainTimeout     time.Duration
	MaxConnections   int // 0 = as many as open files allow for
}

// Log says what is logged and how. Both fields are empty if the file does not
// set them, so that a caller can tell a choice from a default.
type Log struct {
	Level  string // debug, info, warn, error
	Format string // console, json
}

// Default returns a configuration with every default and no node.
func Default() *Config {
	return &Config{
		Listeners: []Listener{{Address: DefaultListen}},
		Upstream: Upstream{
			Control:     Control{Username: DefaultUsername, Password: DefaultPassword},
			Prefer:      LeastConnections,
			DialTimeout: DefaultDialTimeout,
		},
		Proxy: Proxy{HandshakeTimeout: DefaultHandshakeTimeout, DrainTimeout: DefaultDrainTimeout},
	}
}

// Load reads the file at path and expands environment variables with
// os.LookupEnv. Whatever is wrong with the file comes back as Problems.
func Load(path string) (*Config, error) {
	data, err := ReadFile(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, data, os.LookupEnv)
}

// ReadFile returns a configuration file's content. Errors are Problems.
func ReadFile(path string) ([]byte, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, Problems{{File: path, Text: err.Error()}}
	}
	return data, nil
}

func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, errors.New("no such file; check the path")
	case err != nil:
		return nil, fmt.Errorf("cannot be read (%w); check its path and permissions", err)
	case info.IsDir():
		return nil, errors.New("is a directory; name the YAML file in it")
	case info.Size() > maxFileSize:
		return nil, fmt.Errorf("is larger than %d bytes; is it the right file?", maxFileSize)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("cannot be read (%w); check its path and permissions", err)
	}
	return data, nil
}

// Parse reads data, the content of a configuration file. The name is only used
// in problems. The lookup function returns an environment variable's value and
// whether it is set.
//
// Files that the configuration names, certificates say, are read and checked; their content is not kept. Relative paths begin at the folder
// of name.
func Parse(name string, data []byte, lookup func(string) (string, bool)) (*Config, error) {
	return parseText(name, data, lookup, true)
}

// parseText is Parse; without files it looks at the text alone.
func parseText(name string, data []byte, lookup func(string) (string, bool), files bool) (*Config, error) {
	c := Default()
	p := &parser{file: name, lookup: lookup, files: files, lines: map[string]int{}, policies: map[[2]string]int{}}
	if root, ok := p.document(data); ok {
		schema(c).read(p, place{node: root})
		crossCheck(p, c)
	}
	if len(p.problems) > 0 {
		p.problems.sort()
		return nil, p.problems
	}
	p.warnings.sort()
	c.Warnings = p.warnings
	return c, nil
}
