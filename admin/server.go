package admin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/shardmq/shardmq/config/secret"
)

const (
	// Whoever connects has so long for a request, and the proxy for the answer.
	requestTimeout = 5 * time.Second
	answerTimeout  = 30 * time.Second
	idleTimeout    = 2 * time.Minute
	// metricsAtOnce bounds the scrapes that are served at the same time.
	metricsAtOnce = 4
)

// Options say what a Handler serves.
type Options struct {
	Proxy Source // nil = the process is no proxy
	Jobs  Jobs   // nil = it dispatches no jobs
	// Token is what whoever changes jobs or sees their messages has to send; "" = nobody can.
	Token secret.String
	// Version is the process', where there is no Proxy to tell it.
	Version string
}

// Handler serves /livez, /healthz, /readyz and /metrics, and where there are jobs their API below /api/v1/jobs and the page /jobs.
func Handler(o Options) (http.Handler, error) {
	registry, err := o.metrics()
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", alive)
	mux.HandleFunc("GET /healthz", alive)
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		text, err := o.ready(r.Context())
		if err != nil {
			answer(w, http.StatusServiceUnavailable, "not ready: "+err.Error())
			return
		}
		answer(w, http.StatusOK, text)
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: metricsAtOnce, Timeout: answerTimeout}))
	if o.Jobs == nil {
		return mux, nil
	}
	(&jobsAPI{jobs: o.Jobs, token: o.Token, patience: patience}).register(mux)
	pages(mux, o.Proxy == nil)
	// The token keeps other sites' pages from changing anything. This tells them so before it is looked at.
	same := http.NewCrossOriginProtection()
	same.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, http.StatusForbidden, "this comes from a page of another site")
	}))
	return same.Handler(mux), nil
}

// metrics are those of what the process does.
func (o *Options) metrics() (*prometheus.Registry, error) {
	all := []prometheus.Collector{collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})}
	if o.Proxy != nil {
		all = append(all, NewMetrics(o.Proxy))
	} else {
		all = append(all, version(o.Version))
	}
	if o.Jobs != nil {
		all = append(all, NewJobMetrics(o.Jobs))
	}
	registry := prometheus.NewRegistry()
	for _, c := range all {
		if err := registry.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	return registry, nil
}

func alive(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, "alive") }

func answer(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	_, _ = fmt.Fprintln(w, text) // a peer that is gone needs no answer
}

// Serve answers requests on l until ctx ends, and closes l.
func Serve(ctx context.Context, l net.Listener, h http.Handler) error {
	s := &http.Server{Handler: h, ReadHeaderTimeout: requestTimeout, ReadTimeout: requestTimeout,
		WriteTimeout: answerTimeout + time.Second, IdleTimeout: idleTimeout, MaxHeaderBytes: 16 << 10}
	stop := context.AfterFunc(ctx, func() { _ = s.Close() })
	defer stop()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve health checks and metrics: %w", err)
	}
	return nil
}
