package dispatch

import (
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestSequence: however the deliveries of several consumers overtake one another, they are handed on by their tags, and
// each as soon as those before it are there.
func TestSequence(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 50).Draw(t, "deliveries")
		tags := make([]uint64, n)
		for i := range tags {
			tags[i] = uint64(i + 1)
		}
		var q sequence
		var got []uint64
		came := map[uint64]bool{}
		for _, tag := range rapid.Permutation(tags).Draw(t, "order") {
			q.push(&item{delivery: amqp.Delivery{DeliveryTag: tag}}, func(it *item) { got = append(got, it.delivery.DeliveryTag) })
			came[tag] = true
			whole := 0
			for came[uint64(whole+1)] {
				whole++
			}
			require.Equal(t, tags[:whole], append([]uint64{}, got...))
		}
		require.Empty(t, q.early)
	})
}
