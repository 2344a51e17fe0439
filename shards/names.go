package shards

import (
	"strings"

	"github.com/shardmq/shardmq/shards/coordination"
)

var _ coordination.Namer = participant{}

// IsShard implements coordination.Namer.
func (p participant) IsShard(exchange, queue string) bool {
	rest, ok := strings.CutPrefix(queue, queueWord)
	if ok {
		rest, ok = strings.CutPrefix(rest, exchange)
	}
	return ok && strings.HasPrefix(rest, " - ")
}

// vhostLog says in every line which virtual host it is about.
type vhostLog struct {
	Logger
	vhost string
}

// Info implements Logger.
func (l vhostLog) Info(msg string, kv ...any) {
	l.Logger.Info(msg, append([]any{"vhost", l.vhost}, kv...)...)
}

// Warn implements Logger.
func (l vhostLog) Warn(msg string, kv ...any) {
	l.Logger.Warn(msg, append([]any{"vhost", l.vhost}, kv...)...)
}
