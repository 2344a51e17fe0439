package proxy

import (
	"net"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/frames"
)

// The broker has closed a channel and its client goes without a close-ok. It is not for the proxy to say anything about that channel.
func TestClientGoneBeforeCloseOk(t *testing.T) {
	for name, end := range map[string]func(*peer){"clean": (*peer).closeWrite, "reset": (*peer).reset} {
		t.Run(name, func(t *testing.T) {
			r := startRig(t, nil)
			client, broker := r.openChannel(0)
			broker.send(1, &frames.ChannelClose{ReplyCode: 404, ReplyText: "NOT_FOUND - no queue", ClassID: 50, MethodID: 10})
			expect(client, &frames.ChannelClose{})
			end(client)
			broker.eof()
			require.NoError(t, broker.Close())
			r.ended(1)
		})
	}
}

// The time for the handshake is no time for anything else: a connection may be as idle as it likes.
func TestIdleIsNotSlow(t *testing.T) {
	r := startRig(t, nil)
	client, broker := r.openChannel(0)
	r.session().handshakeOver() // what the timer does
	roundTrip(client, broker)
}

// Without heartbeats a peer whose machine is gone is found out by TCP.
func TestKeepalive(t *testing.T) {
	r := startRig(t, nil)
	r.openChannel(0)
	s := r.session()
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, conn := range map[string]net.Conn{"client": s.client, "broker": s.broker} {
		raw, err := conn.(*net.TCPConn).SyscallConn()
		require.NoError(t, err)
		on, idle := 0, 0
		require.NoError(t, raw.Control(func(fd uintptr) {
			on, err = syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_KEEPALIVE)
			require.NoError(t, err)
			idle, err = syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE)
		}))
		require.NoError(t, err)
		require.Equal(t, 1, on, name)
		require.LessOrEqual(t, idle, 60, "seconds: %s", name)
	}
}
