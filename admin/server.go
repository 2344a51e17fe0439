package admin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

const (
	// Whoever connects has so long for a request, and the proxy for the answer.
	requestTimeout = 5 * time.Second
	answerTimeout  = 30 * time.Second
	idleTimeout    = 2 * time.Minute
	// readyTimeout bounds the search for a node that can be reached.
	readyTimeout = 3 * time.Second
	// metricsAtOnce bounds the scrapes that are served at the same time.
	metricsAtOnce = 4
)

// Handler serves /livez, /healthz, /readyz and /metrics.
func Handler(src Source) (http.Handler, error) {
	registry := prometheus.NewRegistry()
	for _, c := range []prometheus.Collector{
		NewMetrics(src), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	} {
		if err := registry.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", alive)
	mux.HandleFunc("GET /healthz", alive)
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if err := ready(r.Context(), src); err != nil {
			answer(w, http.StatusServiceUnavailable, "not ready: "+err.Error())
			return
		}
		answer(w, http.StatusOK, "ready")
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: metricsAtOnce, Timeout: answerTimeout}))
	return mux, nil
}

func alive(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, "alive") }

func answer(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	_, _ = fmt.Fprintln(w, text) // a peer that is gone needs no answer
}

// ready returns why clients should not be sent here now.
func ready(ctx context.Context, src Source) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	if err := src.Reachable(ctx); err != nil {
		return err
	}
	var waiting []string
	for _, v := range src.Status().Vhosts {
		if v.Coordination.Leader == "" && !v.Alone && !usable(v) {
			waiting = append(waiting, v.Name)
		}
	}
	if waiting != nil {
		return fmt.Errorf("no proxy leads yet in vhost %s", strings.Join(waiting, ", "))
	}
	return nil
}

// usable reports whether something has been decided on the exchanges of a vhost,
// so that they work without a leader.
func usable(v Vhost) bool {
	for _, x := range v.Exchanges {
		if x.Generation == 0 {
			return false
		}
	}
	return len(v.Exchanges) > 0
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
