package shards

import (
	"fmt"
	"slices"
	"strings"

	"github.com/shardmq/shardmq/shards/coordination"
)

// placement says by what this policy places messages of an exchange on its shards,
// for example "xxhash on routing key". Proxies compare it: where it differs,
// messages of one key go to different shards.
func (d *Definition) placement(mode Mode) string {
	text := d.Hash.String() + " on " + d.HashOn.text()
	if mode == Native {
		text = "by RabbitMQ"
	}
	if d.OnNodeDown != Reroute {
		text += ", on-node-down " + d.OnNodeDown.String()
	}
	if len(d.FedBy) > 0 {
		text += ", fed by " + strings.Join(slices.Sorted(slices.Values(d.FedBy)), " ")
	}
	if len(text) > coordination.MaxPlacement/4 { // its parts come from a file of any length
		text = fmt.Sprintf("%.100q… %016x", text, XXHash([]byte(text)))
	}
	return text
}

// text names what is hashed.
func (h *HashOn) text() string {
	switch h.Source {
	case OnCapture:
		return fmt.Sprintf("routing key %q", h.expression())
	case OnHeader:
		return fmt.Sprintf("header %q", h.Header)
	case OnMessageID:
		return "message-id"
	case OnCorrelationID:
		return "correlation-id"
	case OnRoutingKey:
	}
	return "routing key"
}
