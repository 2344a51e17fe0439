package proxy

import (
	"encoding/binary"
	"io"
	"net"
	"sync"

	"github.com/shardmq/shardmq/frames"
	"github.com/shardmq/shardmq/router"
)

// batch is the octets of one decided read, in the order in which they go out.
type batch struct {
	router.Parts
	heads []byte // ends and heads of frames that are cut
	vec   [][]byte
	bufs  net.Buffers
	spare []byte // lent to the router for its octets
}

// spareLimit is how large a buffer for the router's octets may be and still be kept.
const spareLimit = 4 * largeBuffer

var batches = sync.Pool{New: func() any { return &batch{} }}

// getBatch hands out an empty batch. The taker owns it until putBack.
func getBatch() *batch { return batches.Get().(*batch) }

// putBack takes a batch back, and the router's octets that it referred to.
func (b *batch) putBack(own []byte) {
	if cap(own) > 0 && cap(own) <= spareLimit {
		b.spare = own[:0]
	}
	b.Reset()
	b.heads = b.heads[:0]
	batches.Put(b)
}

// addHead adds the head of a body frame, behind the end of the one before it if end is set.
func (b *batch) addHead(end bool, channel uint16, size uint32) {
	start := len(b.heads)
	if end {
		b.heads = append(b.heads, frames.End)
	}
	b.heads = append(b.heads, frames.TypeBody)
	b.heads = binary.BigEndian.AppendUint16(b.heads, channel)
	b.heads = binary.BigEndian.AppendUint32(b.heads, size)
	b.Add(router.FromHeads, start, len(b.heads))
}

// write sends the parts with as few system calls as the kernel allows, without copying any.
func (b *batch) write(w io.Writer, read, own []byte) (int64, error) {
	if len(b.List) == 0 {
		return 0, nil
	}
	sources := [...][]byte{router.FromRead: read, router.FromOwn: own, router.FromHeads: b.heads}
	b.vec = b.vec[:0]
	for _, p := range b.List {
		b.vec = append(b.vec, sources[p.From][p.Start:p.End])
	}
	defer clear(b.vec)
	if len(b.vec) == 1 {
		n, err := w.Write(b.vec[0])
		return int64(n), err
	}
	if _, ok := w.(*tlsConn); ok {
		return gather(w, b.vec)
	}
	b.bufs = b.vec
	return b.bufs.WriteTo(w)
}

// gather is for TLS, where each write is a record of its own: small parts are put together.
func gather(w io.Writer, parts [][]byte) (total int64, err error) {
	buf := getBuffer(smallBuffer, 0) // a record's most
	defer putBuffer(buf)
	held := (*buf)[:0]
	write := func(p []byte) {
		if err == nil && len(p) > 0 {
			var n int
			n, err = w.Write(p)
			total += int64(n)
		}
	}
	for _, p := range parts {
		if len(held)+len(p) > cap(held) {
			write(held)
			held = held[:0]
		}
		if len(p) > cap(held) {
			write(p)
			continue
		}
		held = append(held, p...)
	}
	write(held)
	return total, err
}
