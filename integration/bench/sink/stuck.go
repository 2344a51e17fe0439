package sink

import (
	"errors"
	"net"
	"syscall"
)

// StuckExchange is the exchange whose messages nobody reads: a connection that gets a publish to it reads nothing any
// more, that message included, until the sink closes. Its peer's writes soon block; that the peer closes goes unnoticed.
// Such a connection still gets heartbeats and deliveries. What it published before may be missing from a [Tally].
const StuckExchange = "sink.stuck"

// errStuck has a connection stop reading.
var errStuck = errors.New("a message to the exchange that nobody reads")

// What [ListenNarrow] has a connection hold, in octets. Over loopback a segment is 64 KiB otherwise, and the buffer that
// the kernel gives the peer for writing, which grows with it, 2.5 MiB.
const (
	narrowBuffer  = 4 << 10
	narrowSegment = 1460 // as over Ethernet
)

// ListenNarrow is [Listen] for thousands of stuck connections: the kernel holds little of what is sent to them, both at
// the sink and at its peers.
func ListenNarrow(address string) (*Sink, error) {
	how := &net.ListenConfig{Control: func(_, _ string, socket syscall.RawConn) error {
		var err error
		control := func(fd uintptr) { err = narrow(int(fd)) }
		return errors.Join(socket.Control(control), err)
	}}
	how.SetMultipathTCP(false) // whose sockets have no segments
	return listen(address, how)
}

// narrow sets options of a socket that listens, which those of its connections inherit.
func narrow(fd int) error {
	return errors.Join(
		syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_RCVBUF, narrowBuffer),
		syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_MAXSEG, narrowSegment),
	)
}
