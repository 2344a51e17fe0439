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
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/shardmq/shardmq/shards"
	"github.com/shardmq/shardmq/shards/coordination"
)

const (
	replyTo = "amq.rabbitmq.reply-to"
	// unknownHash is no value of erlang:phash2/1: those are below it.
	unknownHash = shards.PhashRange
	// defaultLearnTimeout bounds asking for the node's name, connecting apart.
	defaultLearnTimeout = time.Second
)

var (
	errBlocked = errors.New("the broker blocks publishing (memory or disk alarm); a name in the configuration would do without asking")
	errSilent  = errors.New("the broker does not return the question in time; a name in the configuration would do without asking")
)

// learnName finds the name of the node we are connected to, and the hash of its
// real one if that can be had. AMQP does not tell the name. The server property
// cluster_name is the name of some node of the cluster, often with a longer host
// name; but a direct reply-to address carries a hash of the node's name, which
// tells the right one among the likely ones. Shards are named after the node, so
// a wrong name would not find those that are there, and make a second set: a
// broker that does not answer now is asked again, and nothing is done meanwhile.
func (c *Client) learnName(ctx context.Context, cluster string) (name string, hash uint32, err error) {
	hash, err = c.askHash(ctx)
	closed, isClosed := errors.AsType[*amqp.Error](err)
	switch {
	case err == nil:
		if name := c.nameWith(hash, cluster); name != "" {
			return name, hash, nil
		}
	case isRefused(err), isClosed && closed.Server: // it is refused every time, and to every proxy
		hash = unknownHash
	default:
		return "", unknownHash, fmt.Errorf("learn the node's name: %w", err)
	}
	if cluster == "" {
		return "", unknownHash, fmt.Errorf("the broker at %s does not tell its node name: set it in the configuration", c.o.Address)
	}
	if c.o.Log != nil {
		kv := []any{"address", c.o.Address, "node", cluster}
		if err != nil {
			kv = append(kv, "error", err.Error())
		}
		c.o.Log.Warn("node name not certain, using the cluster's: set it in the configuration", kv...)
	}
	return cluster, hash, nil
}

// nameWith returns the likely name that has the hash, or "".
func (c *Client) nameWith(hash uint32, cluster string) string {
	for _, name := range likelyNames(cluster, c.o.Address) {
		if atomHash(name) == hash {
			return name
		}
	}
	return ""
}

// checkName looks whether a new connection leads to the node whose name was
// learned before. That name stays, for shards are named after it.
func (c *Client) checkName(l *link) {
	ctx, cancel := context.WithTimeout(c.ctx, c.o.ConnectTimeout)
	defer cancel()
	hash, err := c.askHash(ctx)
	c.mu.Lock()
	name, former := c.name, c.hash
	if former == unknownHash {
		former = atomHash(name)
	}
	c.mu.Unlock()
	if err != nil || hash == unknownHash || hash == former || c.o.Log == nil {
		return
	}
	c.o.Log.Warn("the broker at this address has another node name than before; the former name stays in use, and shards "+
		"may be declared on the wrong node: set the node's name in the configuration and restart",
		"address", c.o.Address, "vhost", c.o.Vhost, "node", name, "node_now", c.nameWith(hash, l.clusterName()))
}

// askHash asks for the hash of the node's name on a connection of its own:
// asking takes a publish, and a broker with a memory or disk alarm no longer
// reads from a connection that has published.
func (c *Client) askHash(ctx context.Context) (uint32, error) {
	l, stop, err := c.open(ctx)
	if err != nil {
		return unknownHash, err
	}
	defer stop()
	defer l.close()
	ctx, cancel := context.WithTimeoutCause(ctx, c.learnTimeout, errSilent)
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = l.socket.Close() })()
	hash, err := nodeHash(ctx, l.conn)
	if err == nil {
		return hash, nil
	}
	_ = l.socket.Close() // there is no use in taking leave
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	return unknownHash, err
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
// which the broker fills in for a message that it then returns as unroutable. It
// is published to an exchange that proxies need rights on anyway, or to the
// default exchange where they have none.
func nodeHash(ctx context.Context, conn *amqp.Connection) (uint32, error) {
	hash, err := hashThrough(ctx, conn, coordination.StateExchange)
	if refused, is := errors.AsType[*amqp.Error](err); is && refused.Code == amqp.AccessRefused {
		return hashThrough(ctx, conn, "")
	}
	return hash, err
}

func hashThrough(ctx context.Context, conn *amqp.Connection, exchange string) (uint32, error) {
	blocked := conn.NotifyBlocked(make(chan amqp.Blocking, 2))
	ch, err := conn.Channel()
	if err != nil {
		return 0, err
	}
	if exchange != "" {
		if err := ch.ExchangeDeclare(exchange, amqp.ExchangeDirect, true, false, false, false, nil); err != nil {
			return 0, err
		}
	}
	closed := ch.NotifyClose(make(chan *amqp.Error, 1))
	returned := ch.NotifyReturn(make(chan amqp.Return, 1))
	if _, err := ch.Consume(replyTo, "", true, false, false, false, nil); err != nil {
		return 0, err
	}
	// No queue can have this name: amq. is reserved.
	err = ch.PublishWithContext(ctx, exchange, "amq.shardmq.nowhere", true, false, amqp.Publishing{ReplyTo: replyTo})
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
	case _, ok := <-blocked:
		if ok {
			return 0, errBlocked
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
	pid, _, _ := strings.Cut(strings.TrimPrefix(address, replyTo+"."), ".")
	term, err := base64.StdEncoding.DecodeString(pid)
	if err != nil || len(term) < 5 {
		return unknownHash
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
	if err != nil || hash >= unknownHash {
		return unknownHash
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
	return uint32(h % shards.PhashRange)
}
