package integration

import (
	"syscall"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/frames"
)

// TestShutdown: on SIGTERM every client gets 320, so that its library reconnects, and the proxy ends with 0.
func TestShutdown(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	images := e.name("images")
	p := e.proxy(map[string]int{images: 4})
	publisher := confirming(t, p.URL)
	declareSharded(t, publisher, images)
	publishKeys(t, publisher, images, keys("key", 40))
	var ends []<-chan *amqp.Error
	for range 5 {
		conn := dial(t, p.URL)
		ends = append(ends, conn.NotifyClose(make(chan *amqp.Error, 1)))
		_, err := channel(t, conn).Consume(images, "", false, false, false, false, nil) // never acknowledges
		require.NoError(t, err)
	}
	ends = append(ends, dial(t, p.URL).NotifyClose(make(chan *amqp.Error, 1)))
	require.NoError(t, p.Signal(syscall.SIGTERM))
	for _, end := range ends {
		err := closed(t, end)
		require.Equal(t, amqp.ConnectionForced, err.Code)
		require.Contains(t, err.Reason, "CONNECTION_FORCED")
	}
	code, err := p.Wait()
	require.NoError(t, err)
	require.Zero(t, code)
	_, err = amqp.Dial(p.URL)
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	shards := e.probe(images, 4)
	shards.waitConsumers(0, 0, 0, 0)
	shards.waitMessages(40)
}

// TestShutdownDeafClient: a client that never answers the close does not keep the proxy from ending.
func TestShutdownDeafClient(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	p := e.proxyWith(e.policy("images", 4, "") + "proxy: {drain-timeout: 1s}\n")
	r := rawOpen(t, p.URL)
	half := rawTCP(t, p.URL) // has not even said hello
	half.write(frames.ProtocolHeader[:4])
	require.NoError(t, p.Signal(syscall.SIGTERM))
	var end frames.ConnectionClose
	r.expect(0, &end)
	require.Equal(t, frames.ConnectionForced, frames.Code(end.ReplyCode))
	code, err := p.Wait()
	require.NoError(t, err)
	require.Zero(t, code)
}
