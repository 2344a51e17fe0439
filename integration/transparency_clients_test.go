package integration

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Clients in other languages: their whole sessions, compared as text.

func TestTransparentPika(t *testing.T) {
	t.Parallel()
	t.Run("plain", func(t *testing.T) {
		t.Parallel()
		requireTransparent(t, func(t *testing.T, _ *env, url string, tr *transcript) {
			tr.add("%s", python(t, "session.py", "plain", url))
		})
	})
	t.Run("work", func(t *testing.T) {
		t.Parallel()
		requireTransparent(t, func(t *testing.T, e *env, url string, tr *transcript) {
			tr.add("%s", python(t, "session.py", "work", url, e.name("jobs"), "fanout"))
		})
	})
	t.Run("work on a sharded exchange", func(t *testing.T) {
		t.Parallel()
		requireLikeOneQueue(t, func(t *testing.T, url, name, kind string) string {
			return python(t, "session.py", "work", url, name, kind)
		})
	})
}

func TestTransparentAmqplib(t *testing.T) {
	t.Parallel()
	t.Run("plain", func(t *testing.T) {
		t.Parallel()
		requireTransparent(t, func(t *testing.T, _ *env, url string, tr *transcript) {
			tr.add("%s", node(t, "session.js", "plain", url))
		})
	})
	t.Run("work", func(t *testing.T) {
		t.Parallel()
		requireTransparent(t, func(t *testing.T, e *env, url string, tr *transcript) {
			tr.add("%s", node(t, "session.js", "work", url, e.name("jobs"), "fanout"))
		})
	})
	t.Run("work on a sharded exchange", func(t *testing.T) {
		t.Parallel()
		requireLikeOneQueue(t, func(t *testing.T, url, name, kind string) string {
			return node(t, "session.js", "work", url, name, kind)
		})
	})
}

// TestTransparentRefusals: what clients say about a connection that the broker refuses.
func TestTransparentRefusals(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*testing.T, string) string{
		"wrong password": func(t *testing.T, url string) string { return withUser(t, url, "guest", "wrong") },
		"unknown user":   func(t *testing.T, url string) string { return withUser(t, url, "nobody", "guest") },
		"unknown vhost":  func(t *testing.T, url string) string { return withVhost(t, url, "no-such-vhost") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			requireTransparent(t, func(t *testing.T, _ *env, url string, tr *transcript) {
				for client, said := range connectErrors(t, spoil(t, url)) {
					require.NotContains(t, said, "connected")
					tr.add("%s: %s", client, said)
				}
			})
		})
	}
}
