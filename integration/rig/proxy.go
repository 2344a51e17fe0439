package rig

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// ProxyOptions say how to run the shardmq binary. Either Config or Upstream is needed.
type ProxyOptions struct {
	Upstream  string         // AMQP URI of the broker
	Shards    map[string]int // literal exchange names and their shards per node
	Config    string         // text of a shardmq.yaml; Upstream and Shards then play no part
	Args      []string       // further arguments of "shardmq proxy"
	Listeners int            // how many listeners to wait for, default 1
}

// Proxy is a running shardmq. Its methods may be called from any goroutine.
type Proxy struct {
	Addr  string   // of the first listener, "127.0.0.1:port"
	URL   string   // AMQP URI for clients: the upstream's user and vhost at Addr
	Addrs []string // of all listeners, in the order in which they were logged

	child *Child
	log   *proxyLog
	dir   string
}

// drainPatience is how long Stop waits for the proxy to drain: more than its own default of 10 s.
const drainPatience = 30 * time.Second

// StartProxy builds the binary if need be, runs "shardmq proxy" and returns when its listeners accept. The error of a
// proxy that did not start contains its log. ctx bounds the start, not the proxy.
func StartProxy(ctx context.Context, o ProxyOptions) (*Proxy, error) {
	binary, err := BuildProxy(ctx)
	if err != nil {
		return nil, err
	}
	dir, err := space.folder("proxy")
	if err != nil {
		return nil, err
	}
	args, err := o.arguments(dir)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	p := &Proxy{dir: dir, log: &proxyLog{want: max(o.Listeners, 1), ready: make(chan struct{})}}
	cmd := exec.Command(binary, args...)
	// The whole environment: the configuration may name variables of it.
	cmd.Env, cmd.Stdout, cmd.Stderr = os.Environ(), p.log, p.log
	if p.child, err = Launch(cmd); err != nil {
		return nil, errors.Join(fmt.Errorf("proxy: %w", err), os.RemoveAll(dir))
	}
	space.add(p)
	if err := p.awaitReady(ctx, o.Upstream); err != nil {
		return nil, errors.Join(fmt.Errorf("proxy is not ready: %w; its log:\n%s", err, p.Logs()), p.abandon())
	}
	return p, nil
}

func (o ProxyOptions) arguments(dir string) ([]string, error) {
	args := []string{"proxy"}
	if o.Config != "" {
		file := filepath.Join(dir, "shardmq.yaml")
		if err := os.WriteFile(file, []byte(o.Config), 0o600); err != nil {
			return nil, fmt.Errorf("proxy config: %w", err)
		}
		args = append(args, "--config", file)
	} else {
		args = append(args, "--listen", "127.0.0.1:0", "--upstream", o.Upstream)
		names := make([]string, 0, len(o.Shards))
		for name := range o.Shards {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			args = append(args, "--shard", name+"="+strconv.Itoa(o.Shards[name]))
		}
	}
	return append(append(args, "--log-format", "json"), o.Args...), nil
}

func (p *Proxy) awaitReady(ctx context.Context, upstream string) error {
	select {
	case <-p.log.ready:
	case <-p.child.Done():
		return errEnded
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	p.Addrs = p.log.listeners()
	p.Addr = p.Addrs[0]
	if upstream == "" {
		upstream = "amqp://guest:guest@localhost"
	}
	u, err := url.Parse(upstream)
	if err != nil {
		return fmt.Errorf("upstream: %w", err)
	}
	u.Scheme, u.Host = "amqp", p.Addr
	p.URL = u.String()
	return nil
}

// Configure replaces the shardmq.yaml of a proxy that was started with one, whole and at once, as a deployment does.
// The proxy finds out by itself, or by SIGHUP.
func (p *Proxy) Configure(text string) error {
	file := filepath.Join(p.dir, "shardmq.yaml")
	fresh := file + ".new"
	if err := os.WriteFile(fresh, []byte(text), 0o600); err != nil {
		return fmt.Errorf("proxy config: %w", err)
	}
	if err := os.Rename(fresh, file); err != nil {
		return fmt.Errorf("proxy config: %w", err)
	}
	return nil
}

// PID returns the process id.
func (p *Proxy) PID() int { return p.child.PID() }

// Logs returns everything the proxy has printed so far.
func (p *Proxy) Logs() string { return p.log.String() }

// Done is closed when the proxy has ended.
func (p *Proxy) Done() <-chan struct{} { return p.child.Done() }

// Signal sends a signal to the proxy.
func (p *Proxy) Signal(s os.Signal) error { return p.child.Signal(s) }

// Wait waits for the proxy to end by itself and returns its exit code, -1 when a signal ended it.
func (p *Proxy) Wait() (int, error) { return p.ended(p.child.Wait()) }

// Kill ends the proxy with SIGKILL.
func (p *Proxy) Kill() error {
	err := p.child.Kill()
	_, endErr := p.ended(-1, nil)
	return errors.Join(err, endErr)
}

// Stop ends the proxy in order with SIGTERM and returns its exit code. One that does not end within 30 s is killed,
// which is an error.
func (p *Proxy) Stop() (int, error) {
	if p.child.Ended() {
		return p.Wait()
	}
	_ = p.child.Signal(syscall.SIGCONT) // a paused one could not see the SIGTERM
	return p.ended(p.child.Terminate(drainPatience))
}

// ended removes what a proxy that has ended leaves behind.
func (p *Proxy) ended(code int, err error) (int, error) {
	space.remove(p)
	return code, errors.Join(err, os.RemoveAll(p.dir))
}

func (p *Proxy) abandon() error { return p.Kill() }

// proxyLog collects the proxy's output and watches it for the lines that say that it listens.
type proxyLog struct {
	want  int           // listeners to wait for
	ready chan struct{} // closed when they were seen

	mu    sync.Mutex
	text  bytes.Buffer
	line  []byte // the last, unfinished line
	addrs []string
}

// Write implements io.Writer for exec.Cmd.
func (l *proxyLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Write(b)
	l.line = append(l.line, b...)
	for {
		line, rest, whole := bytes.Cut(l.line, []byte("\n"))
		if !whole {
			return len(b), nil
		}
		l.scan(line)
		l.line = rest
	}
}

// scan looks at one line. Called with mu held.
func (l *proxyLog) scan(line []byte) {
	if len(l.addrs) >= l.want {
		return
	}
	var entry struct{ Msg, Address string }
	if json.Unmarshal(line, &entry) != nil || entry.Msg != "listening" || entry.Address == "" {
		return
	}
	if l.addrs = append(l.addrs, entry.Address); len(l.addrs) == l.want {
		close(l.ready)
	}
}

func (l *proxyLog) listeners() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.addrs)
}

// String returns everything written so far.
func (l *proxyLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
