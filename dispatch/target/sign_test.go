package target

import (
	"net/http"
	"testing"
	"time"

	webhook "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/config/secret"
)

const (
	testSecret  = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	otherSecret = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
)

// TestSignature is a published example of Standard Webhooks.
func TestSignature(t *testing.T) {
	s, err := newSigner([]secret.String{testSecret})
	require.NoError(t, err)
	h := newHeaders(nil, 3)
	require.NoError(t, s.sign(h, "msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`)))
	require.Equal(t, http.Header{"Webhook-Id": {"msg_p5jXN8AQM9LWM0D4loKWxJek"}, "Webhook-Timestamp": {"1614265330"},
		"Webhook-Signature": {"v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="}}, h.Header)
}

// TestSigned: each of the secrets verifies a request, in every mode, and other ones do not.
func TestSigned(t *testing.T) {
	for _, mode := range []Mode{Form, Raw, CloudEvent, CloudStructured, BatchMode} {
		s := record(t)
		c := newClient(t, Options{URL: s.URL, Mode: mode, Batch: Batch{Size: 1}, SigningSecrets: []secret.String{testSecret, otherSecret}}, Rules{})
		m := job()
		m.ID = "a.b\n"
		require.Equal(t, Done, c.Do(t.Context(), m).Verdict)
		r, body := s.one(t)
		for _, secret := range []string{testSecret, otherSecret} {
			w, err := webhook.NewWebhook(secret)
			require.NoError(t, err)
			require.NoError(t, w.Verify([]byte(body), r.Header), mode)
			require.Error(t, w.Verify([]byte(body+"x"), r.Header))
		}
		w, err := webhook.NewWebhook("whsec_BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBB")
		require.NoError(t, err)
		require.Error(t, w.Verify([]byte(body), r.Header))
		if mode != BatchMode {
			require.Equal(t, "a%2Eb%0A", r.Header.Get("Webhook-Id"))
		}
		id := r.Header.Get("Webhook-Id")
		m.Attempt++
		require.Equal(t, Done, c.Do(t.Context(), m).Verdict)
		r, _ = s.one(t)
		require.Equal(t, id, r.Header.Get("Webhook-Id"), "the same for every attempt")
	}
}
