package proxy

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestLargeBuffers: there are so many at a time for those that can do without, and always one for a frame that must be whole.
func TestLargeBuffers(t *testing.T) {
	before := largeOut.Load()
	var all []*[]byte
	for largeOut.Load() < mostLarge {
		b := getBuffer(largeBuffer, 0)
		require.Len(t, *b, largeBuffer)
		all = append(all, b)
	}
	small := getBuffer(largeBuffer, 0)
	require.Len(t, *small, smallBuffer)
	whole := getBuffer(largeBuffer, smallBuffer+1)
	require.Len(t, *whole, largeBuffer)
	huge := getBuffer(smallBuffer, largeBuffer+1)
	require.Len(t, *huge, largeBuffer+1)
	for _, b := range append(all, small, whole, huge) {
		putBuffer(b)
	}
	require.Equal(t, before, largeOut.Load())
	b := getBuffer(largeBuffer, 0)
	require.Len(t, *b, largeBuffer)
	putBuffer(b)
}

// TestEndGivesBuffersBack: also in the middle of what a peer does not read.
func TestEndGivesBuffersBack(t *testing.T) {
	r := startRig(t, nil)
	before := largeOut.Load()
	client, broker := r.openChannel(0)
	stuck := make(chan struct{})
	go func() {
		defer close(stuck)
		for data := largePublish(1 << 20); ; {
			if _, err := client.Conn.Write(data); err != nil {
				return
			}
		}
	}()
	require.Eventually(t, func() bool { return largeOut.Load() > before }, time.Minute, time.Millisecond)
	broker.reset()
	client.reset()
	<-stuck
	r.ended(1)
	require.Eventually(t, func() bool { return largeOut.Load() == before }, time.Minute, time.Millisecond)
}
