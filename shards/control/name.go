package control

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	replyTo = "amq.rabbitmq.reply-to"
	// phashRange is erlang:phash2/1's: values are below it.
	phashRange = 1 << 27
)

// learnName finds the name of the node we are connected to. AMQP does not tell
// it. The server property cluster_name is the name of some node of the cluster,
// often with a longer host name; but a direct reply-to address carries a hash of
// the node's name, which tells the right one among the likely ones. Shards are
// named after the node, so a wrong name would not find those the sharding plugin
// left behind.
func (c *Client) learnName(ctx context.Context, l *link) (string, error) {
	cluster, _ := l.conn.Properties["cluster_name"].(string)
	hash, err := nodeHash(ctx, l.conn)
	var closed *amqp.Error
	switch {
	case err == nil:
		for _, name := range likelyNames(cluster, c.o.Address) {
			if atomHash(name) == hash {
				return name, nil
			}
		}
	case !errors.As(err, &closed) || !closed.Server, l.conn.IsClosed():
		return "", fmt.Errorf("learn the node's name: %w", err)
	}
	if cluster == "" {
		return "", fmt.Errorf("the broker at %s does not tell its node name: set it in the configuration", c.o.Address)
	}
	if c.o.Log != nil {
		c.o.Log.Warn("node name not certain, using the cluster's: set it in the configuration",
			"address", c.o.Address, "node", cluster)
	}
	return cluster, nil
}

// likelyNames are the names a node has when its cluster was named by default.
func likelyNames(cluster, address string) []string {
	base, host, ok := strings.Cut(cluster, "@")
	if !ok {
		base, host = "rabbit", ""
	}
	hosts := []string{host, "localhost"}
	if dialled, _, err := net.SplitHostPort(address); err == nil {
		hosts = append(hosts, dialled)
	}
	var names []string
	for _, host := range hosts {
		short, _, _ := strings.Cut(host, ".")
		for _, base := range []string{base, "rabbit"} {
			names = append(names, base+"@"+host, base+"@"+short)
		}
	}
	return names
}

// nodeHash reads the hash of the node's name off a direct reply-to address,
// which the broker fills in for a message that it then returns as unroutable.
func nodeHash(ctx context.Context, conn *amqp.Connection) (uint32, error) {
	ch, err := conn.Channel()
	if err != nil {
		return 0, err
	}
	defer func() { _ = ch.Close() }()
	closed := ch.NotifyClose(make(chan *amqp.Error, 1))
	returned := ch.NotifyReturn(make(chan amqp.Return, 1))
	if _, err := ch.Consume(replyTo, "", true, false, false, false, nil); err != nil {
		return 0, err
	}
	// No queue can have this name: amq. is reserved.
	err = ch.PublishWithContext(ctx, "", "amq.shardmq.nowhere", true, false, amqp.Publishing{ReplyTo: replyTo})
	if err != nil {
		return 0, err
	}
	select {
	case message, ok := <-returned:
		if ok {
			return parseReplyTo(message.ReplyTo), nil
		}
		if err := <-closed; err != nil {
			return 0, err
		}
		return 0, errLost
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

// parseReplyTo reads "amq.rabbitmq.reply-to.PID.KEY": PID is a process id in
// Erlang's external term format, whose node is "reply@" and the hash. An address
// of another form gives a hash that no name has.
func parseReplyTo(address string) uint32 {
	const none = phashRange
	pid, _, _ := strings.Cut(strings.TrimPrefix(address, replyTo+"."), ".")
	term, err := base64.StdEncoding.DecodeString(pid)
	if err != nil || len(term) < 5 {
		return none
	}
	// 131, PID_EXT (103) or NEW_PID_EXT (88), then the node as an atom with a
	// 2-byte length: ATOM_EXT (100) or ATOM_UTF8_EXT (118); or with a 1-byte
	// length: SMALL_ATOM_UTF8_EXT (119).
	var node []byte
	switch term[2] {
	case 100, 118:
		node = term[5:min(len(term), 5+int(binary.BigEndian.Uint16(term[3:5])))]
	case 119:
		node = term[4:min(len(term), 4+int(term[3]))]
	}
	hash, err := strconv.ParseUint(strings.TrimPrefix(string(node), "reply@"), 10, 32)
	if err != nil || hash >= phashRange {
		return none
	}
	return uint32(hash)
}

// atomHash is erlang:phash2/1 of an atom with an ASCII name.
func atomHash(name string) uint32 {
	var h uint64
	for i := range len(name) {
		h = h<<4 + uint64(name[i])
		if g := h & 0xf0000000; g != 0 {
			h ^= g >> 24
			h ^= g
		}
	}
	return uint32(h % phashRange)
}
