package frames_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/frames"
)

// sink keeps the compiler from dropping calls.
var sink int

func TestHotPathDoesNotAllocate(t *testing.T) {
	rec := recorded(t)
	dst := make([]byte, 0, 4096)
	key, second := "shardmq:0123456789abcdef", "shardmq:fedcba9876543210"
	tests := map[string]func(){
		"Next": func() {
			f, _ := frames.Next(rec["publish"], 131072)
			sink += len(f.Payload()) + int(f.Method()) + int(f.Channel())
		},
		"Next, not complete": func() {
			_, err := frames.Next(rec["publish"][:20], 131072)
			if errors.Is(err, frames.ErrShort) {
				sink++
			}
		},
		"Head": func() {
			if h := frames.ParseHead(rec["body"]); h.Check(131072) == nil {
				sink += int(h.Size)
			}
		},
		"MethodID": func() {
			id := rec["publish"].Method()
			if id.Known() && id.HasContent() && !id.Synchronous() && id.FromClient() {
				sink += len(id.Reply()) + len(id.String())
			}
		},
		"ParsePublish": func() {
			p, _ := frames.ParsePublish(rec["publish"].Args())
			sink += len(p.RoutingKey)
		},
		"ParseDeliver": func() {
			d, _ := frames.ParseDeliver(rec["deliver"].Args())
			sink += len(d.RoutingKey)
		},
		"AppendDeliverWithTag": func() {
			sink += len(frames.AppendDeliverWithTag(dst, rec["deliver"], key))
		},
		"ParseAck": func() {
			a, _ := frames.ParseAck(rec["ack"].Method(), rec["ack"].Args())
			sink += int(a.DeliveryTag)
		},
		"ContentBodySize": func() {
			n, _ := frames.ContentBodySize(rec["header-all"].Payload())
			sink += int(n)
		},
		"ParseContentHeader": func() {
			h, _ := frames.ParseContentHeader(rec["header-all"].Payload())
			id, _ := h.CorrelationID()
			kind, value, _ := h.Headers.Lookup("by")
			sink += len(id) + int(kind) + len(value)
		},
		"Valid": func() {
			h, _ := frames.ParseContentHeader(rec["header-all"].Payload())
			if h.Headers.Valid() == nil {
				sink++
			}
		},
		"Each": func() {
			h, _ := frames.ParseContentHeader(rec["header-all"].Payload())
			n := 0
			if h.Headers.Each(func(name []byte, _ byte, _ []byte) bool { n += len(name); return true }) == nil {
				sink += n
			}
		},
		"RoutingKeys": func() {
			h, _ := frames.ParseContentHeader(rec["header-cc"].Payload())
			n := 0
			h.Headers.RoutingKeys("CC", func(k []byte) bool { n += len(k); return true })
			sink += n
		},
		"AppendHeaderBCC, no table":     func() { sink += bccLen(dst, rec["header-no-table"], key) },
		"AppendHeaderBCC, a table":      func() { sink += bccLen(dst, rec["header-all"], key) },
		"AppendHeaderBCC, an array":     func() { sink += bccLen(dst, rec["header-cc"], key, second) },
		"AppendHeaderBCC, left as sent": func() { sink += bccLen(dst, rec["header-bcc-text"], key) },
		"AppendMethod": func() {
			ack := frames.BasicAck{DeliveryTag: 1}
			sink += len(ack.AppendArgs(dst))
		},
	}
	for name, fn := range tests {
		require.Zero(t, testing.AllocsPerRun(200, fn), name)
	}
}

func bccLen(dst []byte, f frames.Frame, keys ...string) int {
	out, _ := frames.AppendHeaderBCC(dst, f, keys...)
	return len(out)
}

// A short destination grows once, not once per piece. (With the race detector one growth counts as two allocations.)
func TestAppendHeaderBCCGrowsOnce(t *testing.T) {
	f := recorded(t)["header-all"]
	require.LessOrEqual(t, testing.AllocsPerRun(200, func() { sink += bccLen(nil, f, "key") }), 2.0)
}
