package proxy

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/frames"
)

// Every connection leaves exactly one line; no line has a password or any of a message in it.
func TestLogsKeepSecrets(t *testing.T) {
	const secret = "the body of a message"
	r := startRig(t, nil)

	client, broker := r.openChannel(0) // ends in due form
	client.write(publish(1, "x", []byte(secret)))
	expect(broker, &frames.BasicPublish{})
	client.send(0, &frames.ConnectionClose{ReplyCode: 200})
	require.NoError(t, client.Close())
	broker.send(0, &frames.ConnectionCloseOk{})
	require.NoError(t, broker.Close())
	r.ended(1)

	client, broker = r.openChannel(0) // malformed: the body stands where a frame should begin
	client.write([]byte(secret))
	expect(client, &frames.ConnectionClose{})
	require.NoError(t, client.Close())
	require.NoError(t, broker.Close())
	r.ended(2)

	client, broker = r.openChannel(0) // lost inside a delivery
	part := deliver(1, 1, []byte(secret))
	broker.write(part[:len(part)-2])
	client.read(len(part) - 2)
	broker.reset()
	client.eof()
	require.NoError(t, client.Close())
	r.ended(3)

	client, broker = r.begin() // refused
	client.send(0, startOk())
	expect(broker, &frames.ConnectionStartOk{})
	require.NoError(t, broker.Close())
	client.eof()
	require.NoError(t, client.Close())

	seen := map[any]bool{}
	for _, e := range r.ended(4) {
		fields := e.ContextMap()
		require.False(t, seen[fields["conn"]])
		seen[fields["conn"]] = true
		require.Equal(t, fields["error"] == nil, e.Message == "connection closed")
		for _, key := range []string{"client", "vhost", "lasted", "bytes_to_broker", "bytes_to_client", "upstream"} {
			require.Contains(t, fields, key)
		}
	}
	for _, e := range r.logs.All() {
		line, err := json.Marshal(e.ContextMap())
		require.NoError(t, err)
		for _, word := range []string{testPassword, secret} {
			require.NotContains(t, e.Message+string(line), word)
		}
	}
}
