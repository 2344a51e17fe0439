package proxy

import "sync"

// Read buffers come from two pools: small ones for connections that chat, large ones once a read has filled a small one.
// An idle connection holds none.
const (
	smallBuffer = 16 << 10
	largeBuffer = 256 << 10
)

var (
	smallPool = sync.Pool{New: func() any { b := make([]byte, smallBuffer); return &b }}
	largePool = sync.Pool{New: func() any { b := make([]byte, largeBuffer); return &b }}
)

// getBuffer hands out a buffer of at least size octets. The taker owns it until putBuffer.
func getBuffer(size int) *[]byte {
	switch {
	case size <= smallBuffer:
		return smallPool.Get().(*[]byte)
	case size <= largeBuffer:
		return largePool.Get().(*[]byte)
	}
	b := make([]byte, size) // one frame larger than any pooled buffer
	return &b
}

// putBuffer takes a buffer back; the giver must not use it any more.
func putBuffer(b *[]byte) {
	switch len(*b) {
	case smallBuffer:
		smallPool.Put(b)
	case largeBuffer:
		largePool.Put(b)
	}
}
