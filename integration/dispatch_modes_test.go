package integration

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	webhook "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/admin"
	"github.com/shardmq/shardmq/config/certs/certtest"
)

// TestDispatchKeys: jobs of one key are done in the order of the queue, one at a time, those that have to be tried again
// included, while others go on.
func TestDispatchKeys(t *testing.T) {
	t.Parallel()
	e := newCtlEnv(t)
	name := e.name("orders")
	var mu sync.Mutex
	done := map[string][]string{}
	busy := map[string]int{}
	overlaps := 0
	app := newApplication(t, func(w http.ResponseWriter, r *http.Request, body string, call int) {
		customer := r.Header.Get("Customer")
		mu.Lock()
		if busy[customer]++; busy[customer] > 1 {
			overlaps++
		}
		mu.Unlock()
		time.Sleep(time.Millisecond) // the work
		mu.Lock()
		defer mu.Unlock()
		busy[customer]--
		if body[len(body)-1] == '4' && call < 3 {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		done[customer] = append(done[customer], body)
	})
	d := runDispatch(t, withAdmin(jobConfig(e, name, app.URL, "executors: 8", "prefetch: 100", "order: {header: customer}",
		"request: {properties: [customer]}", "retry: {backoff: [100ms, 100ms]}", "breaker: {failures: 0}")))
	awaitConsumers(t, e, name, 8)
	ch := confirming(t, e.url)
	const n = 200
	want := map[string][]string{}
	for i, body := range numbered(n) {
		customer := fmt.Sprint("customer-", i%7)
		want[customer] = append(want[customer], body)
		m := text(body)
		m.Headers = amqp.Table{"customer": customer}
		publish(t, ch, name+"_router", "", m)
	}
	d.reach(name, "all are done", func(st admin.Job) bool { return st.Done == n })
	d.stop()
	require.Equal(t, want, done)
	require.Zero(t, overlaps, "two of a key at once")
	require.Greater(t, app.most.Load(), int64(1), "keys side by side")
}

// TestDispatchBatch: several jobs are one request, and the answer tells of each.
func TestDispatchBatch(t *testing.T) {
	t.Parallel()
	e := newCtlEnv(t)
	name := e.name("clicks")
	var mu sync.Mutex
	seen := map[string]int{}
	requests := 0
	app := newApplication(t, func(w http.ResponseWriter, _ *http.Request, body string, _ int) {
		var items []struct{ ID, Data string }
		if err := json.Unmarshal([]byte(body), &items); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		requests++
		results := map[string]int{}
		for _, it := range items {
			seen[it.Data]++
			results[it.ID] = http.StatusOK
			if it.Data == "job-00007" && seen[it.Data] == 1 {
				results[it.ID] = http.StatusServiceUnavailable
			}
		}
		_ = json.NewEncoder(w).Encode(results)
	})
	d := runDispatch(t, withAdmin(jobConfig(e, name, app.URL, "executors: 2", "request: {mode: batch, batch: {size: 10, wait: 500ms}}", "retry: {backoff: [100ms, 100ms]}")))
	awaitConsumers(t, e, name, 2)
	ch := confirming(t, e.url)
	for _, body := range numbered(100) {
		m := text(body)
		m.ContentType, m.MessageId = "text/plain", body
		publish(t, ch, name+"_router", "", m)
	}
	st := d.reach(name, "all are done", func(st admin.Job) bool { return st.Done == 100 })
	require.EqualValues(t, 1, st.Retried)
	d.stop()
	require.Len(t, seen, 100)
	require.Equal(t, 2, seen["job-00007"])
	require.Less(t, requests, 60)
	require.Empty(t, left(t, e, name))
}

// TestDispatchSigned: a CloudEvent over mutual TLS, with a signature that a library of Standard Webhooks accepts; another
// attempt has the same ID.
func TestDispatchSigned(t *testing.T) {
	t.Parallel()
	e := newCtlEnv(t)
	name := e.name("orders")
	dir := t.TempDir()
	ca, clients := certtest.NewCA(t, "ca"), certtest.NewCA(t, "clients")
	caFile := certtest.WriteFile(t, dir, "ca.pem", ca.PEM)
	cert, key := clients.Issue(t, certtest.Asked{Name: "dispatcher"}).Write(t, dir, "dispatcher")
	const secret = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
	verifier, err := webhook.NewWebhook(secret)
	require.NoError(t, err)

	var mu sync.Mutex
	var seen []string
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = verifier.Verify(body, r.Header)
		}
		mu.Lock()
		defer mu.Unlock()
		h := r.Header
		seen = append(seen, fmt.Sprint(err, " ", r.TLS.PeerCertificates[0].Subject.CommonName, " ", h.Get("Ce-Id"), " ", h.Get("Ce-Type"), " ", h.Get("Ce-Source"),
			" ", h.Get("Content-Type"), " ", h.Get("Webhook-Id"), " ", h.Get("Idempotency-Key"), " ", h.Get("Dispatch-Attempt"), " ", h.Get("Authorization"), " ", string(body)))
		if len(seen) == 1 {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS12, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients.Pool(),
		Certificates: []tls.Certificate{ca.Issue(t, certtest.Asked{Name: "app", Hosts: []string{"127.0.0.1"}}).TLS(t)}}
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	d := runDispatch(t, withAdmin(fmt.Sprintf(`dispatch:
  servers: {test: {url: %q}}
  jobs:
    - name: %s
      declare: {exchange: %s_router}
      target: {url: %q, auth: {bearer: the-token}, tls: {ca: %q, cert: %q, key: %q}}
      request: {mode: cloudevents, event: {source: /shop}}
      sign: {secrets: [%q]}
      retry: {backoff: [100ms, 100ms]}
`, e.url, name, name, server.URL, caFile, cert, key, secret)))
	awaitConsumers(t, e, name, 2)
	m := text(`{"n":1}`)
	m.ContentType, m.MessageId, m.Type = "application/json", "order-1", "shop.order"
	publish(t, confirming(t, e.url), name+"_router", "", m)
	d.reach(name, "it is done", func(st admin.Job) bool { return st.Done == 1 })
	d.stop()
	for i := range seen {
		require.Equal(t, fmt.Sprintf(`<nil> dispatcher order-1 shop.order /shop application/json order-1 order-1 %d Bearer the-token {"n":1}`, i+1), seen[i])
	}
	require.Len(t, seen, 2)
}
