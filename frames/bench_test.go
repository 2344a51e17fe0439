package frames_test

import (
	"bytes"
	"testing"

	"github.com/shardmq/shardmq/frames"
)

// BenchmarkNext walks a read buffer of small messages; one operation is one message of three frames.
func BenchmarkNext(b *testing.B) {
	rec := recorded(b)
	message := append(append(bytes.Clone(rec["publish"]), rec["header-no-table"]...), rec["body"]...)
	buf := bytes.Repeat(message, 64)
	b.ReportAllocs()
	b.SetBytes(int64(len(message)))
	rest := buf
	for b.Loop() {
		for range 3 {
			f, err := frames.Next(rest, 131072)
			if err != nil {
				b.Fatal(err)
			}
			sink += int(f.Method())
			rest = rest[len(f):]
		}
		if len(rest) == 0 {
			rest = buf
		}
	}
}

func BenchmarkParsePublish(b *testing.B) {
	args := recorded(b)["publish"].Args()
	b.ReportAllocs()
	for b.Loop() {
		p, _ := frames.ParsePublish(args)
		sink += len(p.RoutingKey)
	}
}

func BenchmarkParseDeliver(b *testing.B) {
	args := recorded(b)["deliver"].Args()
	b.ReportAllocs()
	for b.Loop() {
		d, _ := frames.ParseDeliver(args)
		sink += len(d.RoutingKey)
	}
}

func BenchmarkAppendDeliverWithTag(b *testing.B) {
	f := recorded(b)["deliver"]
	dst := make([]byte, 0, 512)
	b.ReportAllocs()
	for b.Loop() {
		sink += len(frames.AppendDeliverWithTag(dst, f, "ctag1.1234"))
	}
}

func BenchmarkParseContentHeader(b *testing.B) {
	payload := recorded(b)["header-all"].Payload()
	b.ReportAllocs()
	for b.Loop() {
		h, _ := frames.ParseContentHeader(payload)
		sink += len(h.Headers)
	}
}

func BenchmarkAppendHeaderBCC(b *testing.B) {
	rec := recorded(b)
	for _, name := range []string{"header-empty", "header-no-table", "header-all", "header-cc"} {
		b.Run(name, func(b *testing.B) {
			f := rec[name]
			dst := make([]byte, 0, 1024)
			b.ReportAllocs()
			for b.Loop() {
				sink += bccLen(dst, f, "shardmq:0123456789abcdef")
			}
		})
	}
}

func BenchmarkDecodeQueueDeclare(b *testing.B) {
	args := recorded(b)["queue-declare"].Args()
	var m frames.QueueDeclare
	b.ReportAllocs()
	for b.Loop() {
		if err := m.Decode(args); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendMethod(b *testing.B) {
	m := &frames.QueueDeclareOk{Queue: "images", MessageCount: 3, ConsumerCount: 4}
	dst := make([]byte, 0, 512)
	b.ReportAllocs()
	for b.Loop() {
		sink += len(frames.AppendMethod(dst, 1, m))
	}
}

func BenchmarkTableValid(b *testing.B) {
	h, _ := frames.ParseContentHeader(recorded(b)["header-all"].Payload())
	b.ReportAllocs()
	for b.Loop() {
		if err := h.Headers.Valid(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkShapeCount is a burst of publishes of 16 octets that differ in nothing.
func BenchmarkShapeCount(b *testing.B) {
	content := frames.AppendFrame(nil, frames.TypeHeader, 1, []byte{0, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0})
	one := append(frames.AppendMethod(nil, 1, &frames.BasicPublish{Exchange: "images", RoutingKey: "key.0001"}), content...)
	one = frames.AppendFrame(one, frames.TypeBody, 1, make([]byte, 16))
	all := bytes.Repeat(one, 256<<10/len(one))
	m, _ := frames.ScanPublish(all, 0)
	s, ok := m.ShapeOf(all, m.Key+1, frames.PublishExchange)
	if !ok {
		b.Fatal("no shape")
	}
	burst := len(all) / len(one)
	b.SetBytes(int64(len(one)))
	for n := 0; n < b.N; n += burst {
		if got := s.Count(all); got != burst {
			b.Fatal(got)
		}
	}
}
