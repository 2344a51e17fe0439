package target

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/shardmq/shardmq/config/secret"
)

// BenchmarkDo compares a job with the least that a program could do for it, against the same server: see Bare.
func BenchmarkDo(b *testing.B) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, "ok")
	}))
	b.Cleanup(s.Close)
	m := job()
	b.Run("Bare", func(b *testing.B) {
		client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}}
		defer client.CloseIdleConnections()
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				r, err := client.Post(s.URL, "application/json", bytes.NewReader(m.Body))
				if err != nil {
					b.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, r.Body)
				_ = r.Body.Close()
			}
		})
	})
	for name, o := range map[string]Options{
		"Form":            {Mode: Form},
		"Raw":             {Mode: Raw},
		"RawUnmarked":     {Mode: Raw, Marks: Never},
		"Signed":          {Mode: Raw, SigningSecrets: []secret.String{testSecret}},
		"CloudEvent":      {Mode: CloudEvent},
		"CloudStructured": {Mode: CloudStructured},
	} {
		b.Run(name, func(b *testing.B) {
			o.URL = s.URL
			c := newClient(b, o, Rules{AckWhen: SaysOK()})
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if o := c.Do(b.Context(), m); o.Verdict != Done {
						b.Errorf("%+v", o)
						return
					}
				}
			})
		})
	}
}
