package integration

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/frames"
	"github.com/shardmq/shardmq/integration/rig"
	"github.com/shardmq/shardmq/router"
)

// What a broker is configured to allow, and what becomes of its clients when it shuts down.

// TestBrokerLimits: a broker's own frame_max, channel_max and heartbeat are what its clients are offered, and held to.
func TestBrokerLimits(t *testing.T) {
	t.Parallel()
	e := newNodeEnv(t, rig.NodeOptions{Config: "frame_max = 65536\nchannel_max = 100\nheartbeat = 17"})
	p := e.proxy(map[string]int{"images": 4})
	said := map[string]string{}
	for name, url := range map[string]string{"directly": e.url, "through the proxy": p.URL} {
		r := rawTCP(t, url)
		r.login(url, nil)
		room := map[string]uint32{"through the proxy": router.FrameRoom}[name]
		require.Equal(t, frames.ConnectionTune{ChannelMax: 100, FrameMax: 65536 - room, Heartbeat: 17}, r.tune, name)
		for ch := uint16(1); ch <= 100; ch++ {
			r.write(method(ch, &frames.ChannelOpen{}))
			r.expect(ch, &frames.ChannelOpenOk{})
		}
		r.write(method(101, &frames.ChannelOpen{}))
		var refused frames.ConnectionClose
		r.expect(0, &refused)
		said[name] = fmt.Sprintf("%+v", refused)
	}
	require.Equal(t, said["directly"], said["through the proxy"])

	ch := confirming(t, p.URL)
	declareSharded(t, ch, "images")
	require.NoError(t, declare(ch, "plain", false, nil))
	for exchange, queue := range map[string]string{"images": "images", "": "plain"} {
		m := amqp.Publishing{Headers: amqp.Table{"large": string(body(60_000))}, Body: body(200_000)} // in frames as large as they may be
		publish(t, ch, exchange, queue, m)
		d, ok, err := ch.Get(queue, true)
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, m.Headers, d.Headers)
		require.Equal(t, m.Body, d.Body)
	}
}

// TestBrokerShutdown: when RabbitMQ shuts down, each client is told that its connection was forced to end, whatever it
// was at. A client of RabbitMQ itself may see nothing but the end: it does not wait for the words to arrive.
func TestBrokerShutdown(t *testing.T) {
	onVersions(t, func(t *testing.T, version string) {
		e := newNodeEnv(t, rig.NodeOptions{Version: version})
		p := e.proxy(map[string]int{"images": 4})
		declareSharded(t, open(t, p.URL), "images")
		require.NoError(t, declare(open(t, p.URL), "plain", true, nil))
		ends := map[string]<-chan *amqp.Error{}
		for name, url := range map[string]string{"idle": p.URL, "images": p.URL, "plain": p.URL} {
			conn := dial(t, url)
			ends[name] = conn.NotifyClose(make(chan *amqp.Error, 1))
			if name == "images" || name == "plain" {
				_, err := channel(t, conn).Consume(name, "", false, false, false, false, nil)
				require.NoError(t, err)
			}
		}
		require.NoError(t, e.broker.Shutdown())
		for name, end := range ends {
			said := closed(t, end)
			require.Equal(t, amqp.ConnectionForced, said.Code, name)
			require.Contains(t, said.Reason, "CONNECTION_FORCED - ", name)
		}
	})
}

// TestNeighbourOfAnError: what ends one client's connection is nothing to another one's, on the same exchange too.
func TestNeighbourOfAnError(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	images := e.name("images")
	p := e.proxy(map[string]int{images: 4})
	publisher := confirming(t, p.URL)
	declareSharded(t, publisher, images)
	neighbour := consume(t, p.URL, images, 0)
	for i, said := range [][]byte{
		slices.Concat(method(1, &frames.BasicPublish{Exchange: images, RoutingKey: "k", Immediate: true}), headerFrame(1, 0, 0, nil)),
		method(1, &frames.BasicQos{PrefetchSize: 1}),
	} {
		r := rawOpen(t, p.URL)
		r.write(method(1, &frames.BasicConsume{Queue: images}))
		r.expect(1, &frames.BasicConsumeOk{})
		r.write(said)
		var end frames.ConnectionClose
		r.expect(0, &end)
		require.Equal(t, frames.NotImplemented, frames.Code(end.ReplyCode), "text: %s", end.ReplyText)
		r.write(method(0, &frames.ConnectionCloseOk{}))
		publishKeys(t, publisher, images, keys(fmt.Sprint("after ", i), 20))
	}
	waitBodies(t, append(keys("after 0", 20), keys("after 1", 20)...), neighbour)
}

// TestSteadyConsumer: one to whom messages come all the time hears no heartbeats, and sends its own, which the broker waits for.
func TestSteadyConsumer(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	images, plain := e.name("images"), e.name("plain")
	p := e.proxy(map[string]int{images: 4})
	publisher := confirming(t, p.URL)
	declareSharded(t, publisher, images)
	require.NoError(t, declare(publisher, plain, false, nil))
	for _, queue := range []string{images, plain} {
		r := beating(t, p.URL, 1)
		r.write(method(1, &frames.BasicConsume{Queue: queue, NoAck: true}))
		r.await(frames.BasicConsumeOkID)
		ended := make(chan struct{})
		var beats sync.WaitGroup
		beats.Go(func() { // it may find the connection gone
			tick := time.NewTicker(300 * time.Millisecond)
			defer tick.Stop()
			for {
				select {
				case <-tick.C:
					_, _ = r.conn.Write(heartbeatFrame)
				case <-ended:
					return
				}
			}
		})
		n := 0
		for began := time.Now(); time.Since(began) < 5*time.Second; n++ { // the broker drops who is silent for two
			publish(t, publisher, "", queue, text("now"))
			f, err := r.next()
			for err == nil && f.Type() == frames.TypeHeartbeat {
				f, err = r.next()
			}
			require.NoError(t, err, "after %d messages", n)
			require.Equal(t, frames.BasicDeliverID, f.Method())
			r.content(1)
		}
		close(ended)
		beats.Wait()
		r.write(method(1, &frames.BasicQos{}))
		r.await(frames.BasicQosOkID)
	}
}
