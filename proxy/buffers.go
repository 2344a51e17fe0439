package proxy

import (
	"sync"
	"sync/atomic"
)

// Read buffers come from two pools: small ones for connections that chat, large ones once a read has filled a small one.
// An idle connection holds none.
const (
	smallBuffer = 16 << 10
	largeBuffer = 256 << 10

	// mostLarge is how many large buffers are handed out at a time to those that can do without. A peer that does not read keeps what is to be
	// written to it: thousands of such peers are to keep little.
	mostLarge = 512
)

var (
	smallPool = sync.Pool{New: func() any { b := make([]byte, smallBuffer); return &b }}
	largePool = sync.Pool{New: func() any { b := make([]byte, largeBuffer); return &b }}
)

// largeOut is how many large buffers are handed out.
var largeOut atomic.Int64

// getBuffer hands out a buffer of at least need octets, of want if that can be. The taker owns it until putBuffer, which must follow.
func getBuffer(want, need int) *[]byte {
	if want > smallBuffer && largeOut.Load() >= mostLarge {
		want = smallBuffer
	}
	switch size := max(want, need); {
	case size <= smallBuffer:
		return smallPool.Get().(*[]byte)
	case size <= largeBuffer:
		largeOut.Add(1)
		return largePool.Get().(*[]byte)
	default:
		b := make([]byte, size) // one frame larger than any pooled buffer
		return &b
	}
}

// putBuffer takes a buffer back; the giver must not use it any more.
func putBuffer(b *[]byte) {
	switch len(*b) {
	case smallBuffer:
		smallPool.Put(b)
	case largeBuffer:
		largeOut.Add(-1)
		largePool.Put(b)
	}
}
