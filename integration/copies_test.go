package integration

import (
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"
)

// withCopies declares the sharded exchange and a queue bound to it with the key "copy", as users have for audits.
func (e *env) withCopies(url string) (ch *amqp.Channel, images, copies string) {
	images, copies = e.name("images"), e.name("copies")
	ch = confirming(e.t, url)
	declareSharded(e.t, ch, images)
	_, err := ch.QueueDeclare(copies, true, false, false, false, nil)
	require.NoError(e.t, err)
	require.NoError(e.t, ch.QueueBind(copies, "copy", images, false, nil))
	return ch, images, copies
}

// TestCopies: the client's own CC and BCC work as without a proxy, beside the entry that names the shard.
func TestCopies(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		headers amqp.Table
		copies  int // in the user's queue
	}{
		"none":              {nil, 0},
		"empty":             {amqp.Table{}, 0},
		"CC":                {amqp.Table{"CC": []any{"copy", "other"}}, 1},
		"BCC":               {amqp.Table{"BCC": []any{"copy"}, "a": "b"}, 1},
		"BCC alone":         {amqp.Table{"BCC": []any{"copy"}}, 1},
		"CC and BCC":        {amqp.Table{"CC": []any{"x"}, "BCC": []any{"y", "copy"}}, 1},
		"empty BCC":         {amqp.Table{"BCC": []any{}}, 0},
		"twice the same":    {amqp.Table{"CC": []any{"copy"}, "BCC": []any{"copy"}}, 1},
		"odd elements":      {amqp.Table{"BCC": []any{int32(5), "copy"}}, 1},
		"lower case":        {amqp.Table{"bcc": []any{"copy"}}, 0},
		"in a nested table": {amqp.Table{"t": amqp.Table{"BCC": "x"}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			p := e.proxy(map[string]int{e.name("images"): 4})
			ch, images, copies := e.withCopies(p.URL)
			message := amqp.Publishing{Headers: test.headers, Body: []byte("body")}
			publish(t, ch, images, "key", message)
			shards := e.probe(images, 4)
			require.Equal(t, 1, sum(shards.load().messages), "messages in the shards: %v", shards.load().messages)
			got := drain(t, ch, copies)
			require.Len(t, got, test.copies, "messages in the user's queue")
			d, ok, err := ch.Get(images, true)
			require.NoError(t, err)
			require.True(t, ok)
			want := e.unsharded(message)
			for _, d := range append(got, d) {
				require.Equal(t, "key", d.RoutingKey)
				require.Equal(t, want, d.Headers)
			}
		})
	}
}

// unsharded returns the headers with which the message is delivered where there is no proxy.
func (e *env) unsharded(message amqp.Publishing) amqp.Table {
	ch := confirming(e.t, e.url)
	q, err := ch.QueueDeclare("", false, false, true, false, nil)
	require.NoError(e.t, err)
	publish(e.t, ch, "", q.Name, message)
	d, ok, err := ch.Get(q.Name, true)
	require.NoError(e.t, err)
	require.True(e.t, ok)
	return d.Headers
}

// TestWrongTypedCopies: a CC or BCC that is no array gets the broker's answer, the same as without a proxy.
func TestWrongTypedCopies(t *testing.T) {
	t.Parallel()
	for name, headers := range map[string]amqp.Table{
		"CC text":     {"CC": "copy"},
		"BCC text":    {"BCC": "copy"},
		"BCC number":  {"BCC": int32(1)},
		"BCC table":   {"BCC": amqp.Table{"a": "b"}},
		"BCC nothing": {"BCC": nil},
		"CC wrong":    {"CC": true, "BCC": []any{"copy"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			images := e.name("images")
			p := e.proxy(map[string]int{images: 4})
			declareSharded(t, open(t, p.URL), images)
			ends := make([]*amqp.Error, 2)
			for i, url := range []string{e.url, p.URL} {
				ch := open(t, url)
				end := ch.NotifyClose(make(chan *amqp.Error, 1))
				message := amqp.Publishing{Headers: headers, Body: []byte("body")}
				require.NoError(t, ch.PublishWithContext(t.Context(), images, "key", false, false, message))
				ends[i] = closed(t, end)
			}
			require.Equal(t, ends[0], ends[1], "the channel's end through the proxy")
			require.Equal(t, amqp.PreconditionFailed, ends[0].Code)
			require.Zero(t, sum(e.probe(images, 4).load().messages))
		})
	}
}
