package rig

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"

	amqp "github.com/rabbitmq/amqp091-go"
)

// NodeOptions say what kind of RabbitMQ node to start.
type NodeOptions struct {
	Name    string   // the part before "@localhost", default "shmq-" and a random number
	Plugins []string // to enable, such as "rabbitmq_sharding"
	Config  string   // lines of rabbitmq.conf
	// ProxyProtocol has every AMQP listener insist on a PROXY protocol header (proxy_protocol = true).
	ProxyProtocol bool
	TLS           *NodeTLS // nil: the node has no listener with TLS
	Dir           string   // state folder, kept by Stop; default: a temporary one, removed by Stop
	Version       string   // one that install-rabbitmq.sh provides: "4.0", "4.3"; default: see the package's environment
}

// NodeTLS is a listener with TLS beside the plain one. Files are PEM.
type NodeTLS struct {
	CA, Cert, Key string
	ClientCerts   bool // clients must show a certificate that CA has signed
}

// Node is a private RabbitMQ node, or the one AMQP_URL names. Its methods may be called from any goroutine; those
// that start or end the process take turns.
type Node struct {
	Name string // RabbitMQ's name of it, such as "shmq-1@localhost"; "" for a broker of the user's own
	Addr string // "127.0.0.1:port"
	URL  string // "amqp://guest:guest@127.0.0.1:port"
	// TLSAddr is the address of the listener with TLS; "" for none.
	TLSAddr string

	external       bool
	proxied        bool   // a PROXY protocol header comes first
	scratch        string // temporary folder, always removed
	dir            string // state: scratch, or the caller's own folder
	keep           bool   // dir is the caller's
	sbin           string
	erlCall        string // "" where there is none
	env            []string
	port, distPort int

	mu      sync.Mutex // guards what follows; held while starting and stopping
	child   *Child
	plugins []string // enabled
	stopped bool
}

// ErrExternal is what a node that AMQP_URL names answers when it is asked for something that only the machine it
// runs on can do.
var ErrExternal = errors.New("this broker was given by AMQP_URL: the rig can neither control nor restart it")

// ErrStopped is what a node answers after Stop.
var ErrStopped = errors.New("this node was stopped and its state removed")

// Broker returns the broker that AMQP_URL names, or a new private node if it names none.
func Broker(ctx context.Context) (*Node, error) {
	given := os.Getenv("AMQP_URL")
	if given == "" {
		return StartNode(ctx, NodeOptions{})
	}
	u, err := amqp.ParseURI(given)
	if err != nil {
		return nil, fmt.Errorf("AMQP_URL: %w", err)
	}
	return &Node{Addr: net.JoinHostPort(u.Host, strconv.Itoa(u.Port)), URL: given, external: true}, nil
}

// External says that AMQP_URL named this broker: it is not ours, and what is made in it has to be removed again.
func (n *Node) External() bool { return n.external }

// StartNode starts a node and returns when a client can log in. The error of a node that did not start ends with the
// last lines of its log; it is a *NotInstalledError where there is no RabbitMQ. ctx bounds the start, not the node.
func StartNode(ctx context.Context, o NodeOptions) (*Node, error) {
	in, err := findInstallation(cmp.Or(o.Version, os.Getenv("SHARDMQ_RABBITMQ_VERSION")))
	if err != nil {
		return nil, err
	}
	for try := 0; ; try++ {
		n, err := startNode(ctx, o, in)
		if err == nil {
			return n, nil
		}
		// Somebody else may have taken a port between our choosing it and the node's listening.
		if try == 3 || !strings.Contains(err.Error(), "eaddrinuse") {
			return nil, err
		}
	}
}

func startNode(ctx context.Context, o NodeOptions, in installation) (*Node, error) {
	name := o.Name
	if name == "" {
		name = fmt.Sprintf("shmq-%04x", rand.IntN(1<<16))
	}
	if !strings.Contains(name, "@") {
		name += "@localhost"
	}
	n := &Node{Name: name, dir: o.Dir, keep: o.Dir != "", proxied: o.ProxyProtocol}
	if err := n.place(); err != nil {
		return nil, err
	}
	if o.TLS != nil {
		port, err := FreePort()
		if err != nil {
			return nil, errors.Join(err, os.RemoveAll(n.scratch))
		}
		n.TLSAddr = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		o.Config += o.TLS.config(n.TLSAddr)
	}
	epmdPort, err := space.useEpmd(ctx, in.epmd)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(n.scratch))
	}
	space.add(n) // from here on Stop undoes everything
	if in, err = in.lean(filepath.Join(n.scratch, "rabbitmq"), o.Plugins); err != nil {
		return nil, errors.Join(err, n.Stop())
	}
	if err := n.prepare(o, in, epmdPort); err != nil {
		return nil, errors.Join(err, n.Stop())
	}
	n.mu.Lock()
	err = n.start(ctx)
	n.mu.Unlock()
	if err != nil {
		return nil, errors.Join(err, n.Stop())
	}
	return n, nil
}

// place gives the node its folders and ports.
func (n *Node) place() (err error) {
	if n.port, err = FreePort(); err != nil {
		return err
	}
	if n.distPort, err = FreePort(); err != nil {
		return err
	}
	n.Addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(n.port))
	n.URL = (&url.URL{Scheme: "amqp", User: url.UserPassword("guest", "guest"), Host: n.Addr}).String()
	if n.scratch, err = space.folder(n.Name); err != nil {
		return err
	}
	if !n.keep {
		n.dir = n.scratch
	}
	return nil
}

// start runs the process and waits until it serves. Called with mu held.
func (n *Node) start(ctx context.Context) error {
	out, err := os.OpenFile(n.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("node log: %w", err)
	}
	defer func() { _ = out.Close() }() // the child has its own descriptor
	cmd := exec.Command(filepath.Join(n.sbin, "rabbitmq-server"))
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = n.env, n.dir, out, out
	if n.child, err = Launch(cmd); err != nil {
		return fmt.Errorf("node %s: %w", n.Name, err)
	}
	err = poll(ctx, n.child, func() error { return n.login(ctx) })
	if err == nil {
		_, err = n.eval(ctx, awaitStart)
	}
	if err != nil {
		return fmt.Errorf("node %s is not ready: %w; end of its log:\n%s", n.Name, err, n.LogTail(60))
	}
	return nil
}

// awaitStart waits for the end of the node's start, RabbitMQ's and then Erlang's: clients can log in before its plugins are
// up, and a node whose RabbitMQ is stopped before that ends.
const awaitStart = `rabbit:await_startup(),
	(fun Wait() -> case init:get_status() of {started, _} -> ok; _ -> timer:sleep(5), Wait() end end)()`

// login connects as a client does. A broker that refuses the user is ready all the same: the test's configuration
// may have done away with guest.
func (n *Node) login(ctx context.Context) error {
	conn, err := amqp.DialConfig(n.URL, amqp.Config{Dial: func(network, addr string) (net.Conn, error) {
		var d net.Dialer
		c, err := d.DialContext(ctx, network, addr)
		if deadline, ok := ctx.Deadline(); ok && err == nil {
			err = c.SetDeadline(deadline)
		}
		if n.proxied && err == nil {
			_, err = io.WriteString(c, "PROXY TCP4 127.0.0.1 127.0.0.1 1 1\r\n")
		}
		return c, err
	}})
	var refused *amqp.Error
	if errors.As(err, &refused) && refused.Code == amqp.AccessRefused {
		return n.listens(ctx)
	}
	if err != nil {
		return err
	}
	return errors.Join(conn.Close(), n.listens(ctx))
}

// listens says whether the listener with TLS is there as well, if there is to be one.
func (n *Node) listens(ctx context.Context) error {
	if n.TLSAddr == "" {
		return nil
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", n.TLSAddr)
	if err != nil {
		return err
	}
	return conn.Close()
}

func (n *Node) logFile() string { return filepath.Join(n.dir, "node.log") }

// LogTail returns the last lines of what the node printed, its log included.
func (n *Node) LogTail(lines int) string {
	if n.external {
		return "(the log of a broker given by AMQP_URL is not ours to read)"
	}
	text, err := os.ReadFile(n.logFile())
	if err != nil {
		return err.Error()
	}
	return tail(string(text), lines)
}

func tail(text string, lines int) string {
	all := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if len(all) > lines {
		all = all[len(all)-lines:]
	}
	return strings.Join(all, "\n")
}

// PID returns the process id of the running node, 0 when it is not running.
func (n *Node) PID() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.child == nil || n.child.Ended() {
		return 0
	}
	return n.child.PID()
}

// Pause stops the node's process where it is (SIGSTOP): to its peers it looks hung. Resume continues it.
func (n *Node) Pause() error { return n.signal(syscall.SIGSTOP) }

// Resume continues a paused node.
func (n *Node) Resume() error { return n.signal(syscall.SIGCONT) }

func (n *Node) signal(s os.Signal) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.external:
		return ErrExternal
	case n.child == nil:
		return ErrStopped
	}
	return n.child.Signal(s)
}
