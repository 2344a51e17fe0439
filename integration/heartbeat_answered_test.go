package integration

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/frames"
)

// TestAnsweredIsAlive: a client whose every sign of life is a question that the proxy answers by itself, so that nothing
// of it reaches the broker, is as alive for the broker as it would be directly.
func TestAnsweredIsAlive(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	images := e.name("images")
	p := e.proxy(map[string]int{images: 4})
	declareSharded(t, open(t, p.URL), images)
	r := beating(t, p.URL, 1)
	const beats = 12 // the broker's, two in each interval: four times what it takes to drop a client
	for beat := 0; beat < beats; {
		f, err := r.next()
		require.NoError(t, err, "after %d beats", beat)
		switch {
		case f.Type() == frames.TypeHeartbeat:
			beat++
			r.write(method(1, &frames.QueueDeclare{Queue: images, Passive: true}))
		default:
			require.Equal(t, frames.QueueDeclareOkID, f.Method(), "%q", head(f, 200))
		}
	}
}
