package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/shardmq/shardmq/config"
	"github.com/shardmq/shardmq/config/certs"
)

// certificates are the TLS configurations that a configuration asks for, or that a running proxy has.
type certificates[T any] struct {
	listeners  map[string]T // by listenerKey
	upstream   T
	identities map[string]T // by name
}

// listenerKey tells listeners apart: several may have the same address, if the port is for the system to choose.
func listenerKey(cfg *config.Config, i int) string {
	n := 0
	for _, l := range cfg.Listeners[:i] {
		if l.Address == cfg.Listeners[i].Address {
			n++
		}
	}
	return fmt.Sprintf("%s#%d", cfg.Listeners[i].Address, n)
}

// loadCertificates reads the files. What can be wrong with them has been reported by package config, unless they have changed since.
func loadCertificates(cfg *config.Config) (*certificates[*certs.Loaded], error) {
	c := &certificates[*certs.Loaded]{listeners: map[string]*certs.Loaded{}, identities: map[string]*certs.Loaded{}}
	var bad []error
	for i, l := range cfg.Listeners {
		if l.TLS == nil {
			continue
		}
		loaded, found := certs.LoadServer(*l.TLS)
		if found.Fatal() {
			bad = append(bad, fmt.Errorf("listeners[%d].tls: %w", i, found))
		}
		c.listeners[listenerKey(cfg, i)] = loaded
	}
	var o certs.ClientOptions
	if cfg.Upstream.TLS != nil {
		o = *cfg.Upstream.TLS
	}
	loaded, found := certs.LoadClient(o)
	if found.Fatal() {
		bad = append(bad, fmt.Errorf("upstream.tls: %w", found))
	}
	c.upstream = loaded
	for i, each := range cfg.Upstream.Identities {
		loaded, found := certs.LoadClient(each.TLS)
		if found.Fatal() {
			bad = append(bad, fmt.Errorf("upstream.tls.identities[%d]: %w", i, found))
		}
		c.identities[each.Name] = loaded
	}
	return c, errors.Join(bad...)
}

// live makes them what a proxy may be given.
func live(c *certificates[*certs.Loaded]) *certificates[*certs.Live] {
	out := &certificates[*certs.Live]{listeners: map[string]*certs.Live{}, upstream: certs.NewLive(c.upstream), identities: map[string]*certs.Live{}}
	for name, l := range c.identities {
		out.identities[name] = certs.NewLive(l)
	}
	for key, l := range c.listeners {
		out.listeners[key] = certs.NewLive(l)
	}
	return out
}

// sameClients reports whether a proxy that runs with started gives each of its identities to those whom cfg gives it to. Who that is takes a
// restart, and until then the certificates of the one must not go to the clients of the other.
func sameClients(started, cfg *config.Config) bool {
	listeners, identities := map[string]config.Listener{}, map[string]config.Identity{}
	for i, l := range cfg.Listeners {
		listeners[listenerKey(cfg, i)] = l
	}
	for _, each := range cfg.Upstream.Identities {
		identities[each.Name] = each
	}
	for i, l := range started.Listeners {
		if now, ok := listeners[listenerKey(started, i)]; !ok || now.Identity != l.Identity {
			return false
		}
	}
	for _, each := range started.Upstream.Identities {
		if now, ok := identities[each.Name]; !ok || now.CommonName != each.CommonName || now.Subject != each.Subject {
			return false
		}
	}
	return true
}

// replace has connections from now on go by fresh, as far as the running proxy has such listeners, and says in the log what is new. It
// reports whether anything is. Unless the clients are the same, see sameClients, what says who they are stays: identities, and listeners that
// verify certificates.
func replace(running *certificates[*certs.Live], fresh *certificates[*certs.Loaded], same bool, log *zap.Logger) (changed bool) {
	for key, v := range running.listeners {
		l := fresh.listeners[key]
		if l == nil || v.Loaded().Same(l) {
			continue
		}
		changed = true
		if !same && (l.Verifies() || v.Loaded().Verifies()) {
			log.Warn("TLS of listener stays until the restart, for who gets which identity has changed", zap.String("address", key[:strings.LastIndexByte(key, '#')]))
		} else if v.Replace(l) {
			log.Info("TLS of listener replaced", append(certificateFields(l), zap.String("address", key[:strings.LastIndexByte(key, '#')]))...)
		}
	}
	if running.upstream.Replace(fresh.upstream) {
		changed = true
		log.Info("TLS to nodes replaced", certificateFields(fresh.upstream)...)
	}
	for name, v := range running.identities {
		l := fresh.identities[name]
		if l == nil || v.Loaded().Same(l) {
			continue
		}
		changed = true
		if !same {
			log.Warn("certificate of identity stays until the restart, for who gets which identity has changed", zap.String("identity", name))
		} else if v.Replace(l) {
			log.Info("certificate of identity replaced", append(certificateFields(l), zap.String("identity", name))...)
		}
	}
	return changed
}

// same reports whether a proxy that has just been given its certificates would get the same ones now.
func same(running *certificates[*certs.Live], fresh *certificates[*certs.Loaded]) bool {
	for key, v := range running.listeners {
		if l := fresh.listeners[key]; l == nil || !v.Loaded().Same(l) {
			return false
		}
	}
	for name, v := range running.identities {
		if l := fresh.identities[name]; l == nil || !v.Loaded().Same(l) {
			return false
		}
	}
	return running.upstream.Loaded().Same(fresh.upstream)
}

func certificateFields(l *certs.Loaded) []zap.Field {
	if l.Leaf() == nil {
		return nil
	}
	return []zap.Field{zap.String("certificate", certs.Name(l.Leaf())), zap.String("expires", l.Leaf().NotAfter.UTC().Format(time.RFC3339))}
}

// warn logs what works, but ought to be otherwise.
func warn(log *zap.Logger, cfg *config.Config) {
	for _, w := range cfg.Warnings {
		log.Warn("configuration", zap.String("warning", w.String()))
	}
}
