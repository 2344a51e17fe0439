package inventory

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	apiTimeout = 10 * time.Second
	// apiAtMost bounds an answer of the management API, in bytes.
	apiAtMost = 64 << 20
)

// Management reads queues' numbers from RabbitMQ's management API.
type Management struct {
	URL, Username, Password string
	Client                  *http.Client // nil = one that follows no redirects
}

// apiQueue is what of a queue is asked for.
type apiQueue struct {
	Name    string `json:"name"`
	Type    string `json:"type"`
	Unacked *int64 `json:"messages_unacknowledged"` // absent until it has been counted
	Node    string `json:"node"`
	Leader  string `json:"leader"` // of a replicated queue
	Stats   struct {
		Publish apiRate `json:"publish_details"`
		Deliver apiRate `json:"deliver_get_details"`
	} `json:"message_stats"`
}

type apiRate struct {
	Rate float64 `json:"rate"`
}

// Stats returns the numbers of all shard queues of a vhost, by name. Its numbers
// are some seconds old.
func (m *Management) Stats(ctx context.Context, vhost string) (map[string]Stats, error) {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	address := strings.TrimSuffix(m.URL, "/") + "/api/queues/" + url.PathEscape(vhost) +
		"?columns=name,type,node,leader,messages_unacknowledged,message_stats.publish_details.rate,message_stats.deliver_get_details.rate"
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, fmt.Errorf("management API: %w", err)
	}
	req.SetBasicAuth(m.Username, m.Password)
	resp, err := m.client().Do(req)
	if err != nil {
		return nil, fmt.Errorf("management API: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("management API: %s answers %s%s", m.URL, resp.Status, hint(resp.StatusCode))
	}
	var queues []apiQueue
	if err := json.NewDecoder(io.LimitReader(resp.Body, apiAtMost)).Decode(&queues); err != nil {
		return nil, fmt.Errorf("management API: %w", err)
	}
	stats := map[string]Stats{}
	for _, q := range queues {
		stats[q.Name] = Stats{
			Unacked: q.Unacked, Publish: q.Stats.Publish.Rate, Deliver: q.Stats.Deliver.Rate, Type: q.Type, Node: cmp.Or(q.Leader, q.Node),
		}
	}
	return stats, nil
}

// hint says what to do about an answer.
func hint(code int) string {
	switch code {
	case http.StatusUnauthorized, http.StatusForbidden:
		return " (the user needs the tag monitoring)"
	case http.StatusNotFound:
		return " (is it the address of the management API, and does the user see the vhost?)"
	}
	return ""
}

func (m *Management) client() *http.Client {
	if m.Client != nil {
		return m.Client
	}
	// A redirect could carry the password to another host.
	return &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}
