package target

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardmq/shardmq/config/certs"
)

const (
	maxConnect  = 10 * time.Second // for a connection, and as long again for TLS
	pingAfter   = 15 * time.Second // of silence on an HTTP/2 connection that requests wait on
	lookAtFiles = 10 * time.Second // between two looks at the files of TLS
	// idleTime is after how long an idle connection is closed: before many servers do it (Node and Apache after 5 s), for
	// a request might be on its way then.
	idleTime = 4 * time.Second
	// maxHeader bounds the headers of an answer, in octets.
	maxHeader = 256 << 10
	// closedIdle is the error of net/http if a connection was found to be closed that a request was about to be sent on.
	closedIdle = "http: server closed idle connection"
)

// wire is the connections to an endpoint.
type wire struct {
	o    Options
	host string // with the port
	// dial is the network's.
	dial func(ctx context.Context, network, address string) (net.Conn, error)
	now  atomic.Pointer[http.Transport]
	// files reports whether TLS goes by files.
	files bool
	every time.Duration // see lookAtFiles

	mu     sync.Mutex // guards what follows
	looked time.Time
	loaded *certs.Loaded
	// problem is why the files are not those that connections go by; nil = they are.
	problem error
	closed  bool
}

func newWire(o Options, u *url.URL) (*wire, error) {
	if u.Scheme == "http" {
		o.TLS = TLS{}
	}
	loaded, found := certs.LoadClient(o.TLS)
	if found.Fatal() {
		return nil, fmt.Errorf("tls: %w", found)
	}
	w := &wire{o: o, host: hostPort(u), loaded: loaded, looked: time.Now(), every: lookAtFiles,
		files: o.TLS.CA != "" || o.TLS.Cert != "",
		dial:  (&net.Dialer{Timeout: connectTime(o)}).DialContext}
	w.now.Store(w.transport(loaded))
	return w, nil
}

func hostPort(u *url.URL) string {
	if u.Port() != "" {
		return u.Host
	}
	return net.JoinHostPort(u.Hostname(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
}

// connectTime is how long a connection may take: less than the timeout, so that there is a word for it.
func connectTime(o Options) time.Duration { return min(maxConnect, o.Timeout*3/4) }

func (w *wire) transport(loaded *certs.Loaded) *http.Transport {
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		OnProxyConnectResponse: proxyAnswered,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return w.dial(ctx, network, address)
		},
		TLSClientConfig:        loaded.Client(""),
		TLSHandshakeTimeout:    connectTime(w.o),
		ForceAttemptHTTP2:      true,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingAfter},
		DisableCompression:     true, // an answer is judged as it is
		MaxConnsPerHost:        w.o.Connections,
		MaxIdleConns:           w.o.Connections,
		MaxIdleConnsPerHost:    w.o.Connections,
		IdleConnTimeout:        idleTime,
		MaxResponseHeaderBytes: maxHeader,
	}
}

// roundTrip sends a request, once. A connection that the endpoint had closed before the request was on it does not
// count, but such may follow on one another only so often.
func (w *wire) roundTrip(r *http.Request) (response *http.Response, err error) {
	if w.files {
		w.refresh()
	}
	for range 3 {
		response, err = w.now.Load().RoundTrip(r)
		if err == nil || err.Error() != closedIdle {
			break
		}
		if r.GetBody != nil {
			body, again := r.GetBody()
			if again != nil {
				break
			}
			r = r.WithContext(r.Context()) // the one before may still be looked at
			r.Body = body
		}
	}
	return response, err
}

// refresh looks at the files of TLS if it is time to.
func (w *wire) refresh() {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || now.Sub(w.looked) < w.every {
		return
	}
	w.looked = now
	loaded, found := certs.LoadClient(w.o.TLS)
	w.problem = nil
	if found.Fatal() {
		w.problem = found
		return
	}
	if w.loaded.Same(loaded) {
		return
	}
	w.loaded = loaded
	w.now.Swap(w.transport(loaded)).CloseIdleConnections()
}

// trouble is what is wrong with the files of TLS.
func (w *wire) trouble() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.problem
}

func (w *wire) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.now.Load().CloseIdleConnections()
}

// proxyError is a proxy's refusal to connect.
type proxyError int

func (e proxyError) Error() string { return "the proxy answered " + strconv.Itoa(int(e)) }

func proxyAnswered(_ context.Context, _ *url.URL, _ *http.Request, r *http.Response) error {
	if r.StatusCode != http.StatusOK {
		return proxyError(r.StatusCode)
	}
	return nil
}
