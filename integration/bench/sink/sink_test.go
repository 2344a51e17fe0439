package sink_test

import (
	"errors"
	"maps"
	"net"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/frames"
	"github.com/shardmq/shardmq/integration/bench/client"
	"github.com/shardmq/shardmq/integration/bench/sink"
	"github.com/shardmq/shardmq/integration/rig"
)

func TestMain(m *testing.M) {
	code := m.Run()
	if err := rig.Cleanup(); err != nil {
		code = 1
	}
	os.Exit(code)
}

func start(t *testing.T) *sink.Sink {
	t.Helper()
	s, err := sink.Listen("127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func dial(t *testing.T, s *sink.Sink) *client.Client {
	t.Helper()
	c, err := client.Dial(t.Context(), s.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() }) // some tests close it
	return c
}

func TestCountsExactly(t *testing.T) {
	for _, size := range []int{0, 16, 1024, 300_000} {
		s := start(t)
		tally := s.Count("counted", false)
		c := dial(t, s)
		n := 2500
		if size > 100_000 {
			n = 20
		}
		require.NoError(t, c.Publish(client.NewBatch("other", []string{"k"}, make([]byte, size)), 7))
		require.NoError(t, c.Publish(client.NewBatch("counted", []string{"a", "b", "c"}, make([]byte, size)), n))
		require.NoError(t, tally.Await(t.Context(), uint64(n)))
		require.Equal(t, uint64(n), tally.Messages(), "%d octets", size)
	}
}

func TestConfirms(t *testing.T) {
	s := start(t)
	tally := s.Count("", false)
	c := dial(t, s)
	require.NoError(t, c.Call(&frames.ConfirmSelect{}, &frames.ConfirmSelectOk{}))
	require.NoError(t, c.Confirmed(client.NewBatch("", []string{"k"}, make([]byte, 16)), 10_000))
	require.Equal(t, uint64(10_000), tally.Messages())
}

func TestDelivers(t *testing.T) {
	s := start(t)
	const n = 10_000
	s.Load("full", &sink.Load{Count: n, Body: make([]byte, 1024), Exchange: "x", RoutingKey: "k"})
	_, err := dial(t, s).Consume("full", n, 1024)
	require.NoError(t, err)

	// With another client, and two consumers on one channel: the delivery tags are the channel's.
	conn, err := amqp.Dial("amqp://guest:guest@" + s.Addr())
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	ch, err := conn.Channel()
	require.NoError(t, err)
	first, err := ch.Consume("full", "", true, false, false, false, nil)
	require.NoError(t, err)
	second, err := ch.Consume("full", "", true, false, false, false, nil)
	require.NoError(t, err)
	tags := map[uint64]bool{}
	for range 2 * n {
		var d amqp.Delivery
		select {
		case d = <-first:
		case d = <-second:
		}
		require.Len(t, d.Body, 1024)
		require.Equal(t, "k", d.RoutingKey)
		tags[d.DeliveryTag] = true
	}
	require.Len(t, tags, 2*n)
}

func TestShardKeysAreChecked(t *testing.T) {
	for name, c := range map[string]struct {
		headers amqp.Table
		fault   string
	}{
		"none":        {nil, `shard keys []`},
		"other":       {amqp.Table{"BCC": []any{"nowhere"}}, `bound to the queues []`},
		"two":         {amqp.Table{"BCC": []any{"key", "key"}}, `want exactly one`},
		"of a string": {amqp.Table{"BCC": "key"}, `no array`},
		"right":       {amqp.Table{"BCC": []any{"key"}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			conn, err := amqp.Dial("amqp://guest:guest@" + s.Addr())
			require.NoError(t, err)
			defer func() { _ = conn.Close() }() // the sink ends a connection that fails
			ch, err := conn.Channel()
			require.NoError(t, err)
			require.NoError(t, ch.ExchangeDeclare("sharded", "direct", true, false, false, false, nil))
			_, err = ch.QueueDeclare("shard", true, false, false, false, nil)
			require.NoError(t, err)
			require.NoError(t, ch.QueueBind("shard", "key", "sharded", false, nil))

			tally := s.Count("sharded", true)
			require.NoError(t, ch.Publish("sharded", "rk", false, false, amqp.Publishing{Headers: c.headers, Body: []byte("b")}))
			err = tally.Await(t.Context(), 1)
			if c.fault != "" {
				require.ErrorContains(t, err, c.fault)
				return
			}
			require.NoError(t, err)
			require.Equal(t, map[string]uint64{"shard": 1}, tally.Samples())
		})
	}
}

func TestBrokenStreamsFailTheRun(t *testing.T) {
	publish := frames.AppendMethod(nil, 1, &frames.BasicPublish{RoutingKey: "k"})
	for name, octets := range map[string][]byte{
		"body without a method":    frames.AppendFrame(nil, frames.TypeBody, 1, []byte("x")),
		"publish within a message": append(publish, publish...),
		"too much body": append(sink.AppendContent(publish[:len(publish):len(publish)], 1, []byte("xy"))[:len(publish)+22],
			frames.AppendFrame(nil, frames.TypeBody, 1, []byte("xyz"))...),
		"wrong end":        append(publish[:len(publish)-1:len(publish)-1], 0),
		"closed channel":   frames.AppendMethod(nil, 9, &frames.BasicPublish{}),
		"unknown method":   frames.AppendFrame(nil, frames.TypeMethod, 1, []byte{0, 99, 0, 1}),
		"truncated method": frames.AppendFrame(nil, frames.TypeMethod, 1, []byte{0, 50, 0, 10, 0}),
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			conn, err := net.Dial("tcp", s.Addr())
			require.NoError(t, err)
			defer func() { require.NoError(t, conn.Close()) }()
			var hello []byte
			hello = append(hello, frames.ProtocolHeader[:]...)
			hello = frames.AppendMethod(hello, 0, &frames.ConnectionStartOk{})
			hello = frames.AppendMethod(hello, 0, &frames.ConnectionTuneOk{})
			hello = frames.AppendMethod(hello, 0, &frames.ConnectionOpen{})
			hello = frames.AppendMethod(hello, 1, &frames.ChannelOpen{})
			_, err = conn.Write(append(hello, octets...))
			require.NoError(t, err)
			require.Error(t, s.Count("", false).Await(t.Context(), 1))
			require.Error(t, s.Err())
		})
	}
}

// Nothing is read of a connection that has published to StuckExchange, until the sink closes.
func TestStuck(t *testing.T) {
	for name, listen := range map[string]func(string) (*sink.Sink, error){"wide": sink.Listen, "narrow": sink.ListenNarrow} {
		t.Run(name, func(t *testing.T) {
			s, err := listen("127.0.0.1:0")
			require.NoError(t, err)
			tally := s.Count("counted", false)
			other := dial(t, s)
			conn, err := net.Dial("tcp", s.Addr())
			require.NoError(t, err)
			defer func() { require.NoError(t, conn.Close()) }()
			stuck := append([]byte{}, frames.ProtocolHeader[:]...)
			for _, m := range []frames.Method{&frames.ConnectionStartOk{}, &frames.ConnectionTuneOk{}, &frames.ConnectionOpen{}} {
				stuck = frames.AppendMethod(stuck, 0, m)
			}
			stuck = frames.AppendMethod(stuck, 1, &frames.ChannelOpen{})
			for _, exchange := range []string{sink.StuckExchange, "counted"} {
				stuck = frames.AppendMethod(stuck, 1, &frames.BasicPublish{Exchange: exchange})
				stuck = sink.AppendContent(stuck, 1, nil)
			}
			_, err = conn.Write(stuck)
			require.NoError(t, err)
			require.NoError(t, conn.SetWriteDeadline(time.Now().Add(100*time.Millisecond)))
			_, err = conn.Write(make([]byte, 64<<20))
			require.ErrorIs(t, err, os.ErrDeadlineExceeded)
			require.Zero(t, tally.Messages())

			require.NoError(t, other.Publish(client.NewBatch("counted", []string{"k"}, nil), 1)) // others are read
			require.NoError(t, tally.Await(t.Context(), 1))
			require.NoError(t, s.Close())
			require.NoError(t, s.Err())
		})
	}
}

// The registry refuses what RabbitMQ refuses, with the same codes and texts: a proxy reads them.
func TestAnswersLikeRabbitMQ(t *testing.T) {
	broker, err := rig.Broker(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, broker.Stop()) }()
	s := start(t)

	alternate := amqp.Table{"alternate-exchange": "bench-sink-u"}
	steps := map[string]func(ch *amqp.Channel) error{
		"1 no exchange": func(ch *amqp.Channel) error {
			return ch.ExchangeDeclarePassive("bench-sink-x", "direct", true, false, false, false, nil)
		},
		"2 no queue": func(ch *amqp.Channel) error {
			_, err := ch.QueueDeclarePassive("bench-sink-q", true, false, false, false, nil)
			return err
		},
		"3 declare": func(ch *amqp.Channel) error {
			return ch.ExchangeDeclare("bench-sink-x", "topic", true, false, true, false, nil)
		},
		"4 other type, durable": func(ch *amqp.Channel) error {
			return ch.ExchangeDeclare("bench-sink-x", "direct", false, false, true, false, nil)
		},
		"5 other durable": func(ch *amqp.Channel) error {
			return ch.ExchangeDeclare("bench-sink-x", "topic", false, true, false, false, nil)
		},
		"6 other auto_delete": func(ch *amqp.Channel) error {
			return ch.ExchangeDeclare("bench-sink-x", "topic", true, true, false, false, nil)
		},
		"7 other internal": func(ch *amqp.Channel) error {
			return ch.ExchangeDeclare("bench-sink-x", "topic", true, false, false, false, alternate)
		},
		"8 other alternate": func(ch *amqp.Channel) error {
			return ch.ExchangeDeclare("bench-sink-x", "topic", true, false, true, false, alternate)
		},
		"9 bind to no queue": func(ch *amqp.Channel) error {
			return ch.QueueBind("bench-sink-q", "k", "bench-sink-x", false, nil)
		},
		"a delete": func(ch *amqp.Channel) error {
			return ch.ExchangeDelete("bench-sink-x", false, false)
		},
		"b declare with alternate": func(ch *amqp.Channel) error {
			return ch.ExchangeDeclare("bench-sink-x", "direct", true, false, false, false, alternate)
		},
		"c without alternate": func(ch *amqp.Channel) error {
			return ch.ExchangeDeclare("bench-sink-x", "direct", true, false, false, false, nil)
		},
		"d delete": func(ch *amqp.Channel) error {
			return ch.ExchangeDelete("bench-sink-x", false, false)
		},
	}
	answers := func(url string) map[string]string {
		conn, err := amqp.Dial(url)
		require.NoError(t, err)
		defer func() { require.NoError(t, conn.Close()) }()
		got := map[string]string{}
		for _, name := range slices.Sorted(maps.Keys(steps)) {
			ch, err := conn.Channel()
			require.NoError(t, err)
			got[name] = "ok"
			var refused *amqp.Error
			if err := steps[name](ch); errors.As(err, &refused) {
				got[name] = refused.Error()
			} else {
				require.NoError(t, err)
				require.NoError(t, ch.Close())
			}
		}
		return got
	}
	require.Equal(t, answers(broker.URL), answers("amqp://guest:guest@"+s.Addr()))
	require.NoError(t, s.Err())
}

// Both sides' heartbeats reach the other, and an idle connection notices its end.
func TestIdle(t *testing.T) {
	s := start(t)
	c, err := client.DialWith(t.Context(), s.Addr(), client.Options{Heartbeat: time.Second})
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- c.Idle(time.Millisecond) }()
	for s.Heartbeats() < 3 {
		select {
		case err := <-ended:
			require.NoError(t, err)
		default:
			runtime.Gosched()
		}
	}
	require.NoError(t, s.Err())
	require.NoError(t, c.Close())
	require.Error(t, <-ended)
}
