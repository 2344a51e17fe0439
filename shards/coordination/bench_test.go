package coordination

import (
	"fmt"
	"testing"
)

// One consumer joins, and leaves, where there are many.
func BenchmarkChanged(b *testing.B) {
	for _, size := range []struct{ shards, consumers int }{{8, 4}, {100, 50}, {100, 1000}} {
		b.Run(fmt.Sprintf("shards=%d/consumers=%d", size.shards, size.consumers), func(b *testing.B) {
			c := NewCore("me", true, Timing{})
			r := ExchangeReport{Want: Spec{Shards: makeShards(nodeNames(1), size.shards)}}
			own := func() {
				c.OwnExchange(c.now+1, "x", r, true)
				c.Take()
				for i := range r.Consumers {
					r.Consumers[i].Held = c.Plan("x").Targets[r.Consumers[i].ID]
				}
			}
			for id := range uint64(size.consumers) {
				r.Consumers = append(r.Consumers, ConsumerReport{ID: id})
			}
			own()
			own()
			full := r.Consumers
			b.ReportAllocs()
			for b.Loop() {
				r.Consumers = append(append([]ConsumerReport{}, full...), ConsumerReport{ID: 1 << 40})
				own()
				r.Consumers = append([]ConsumerReport{}, full...)
				own()
			}
		})
	}
}
