// Package coordination lets the proxies of one virtual host decide together: on
// the shards of every sharded exchange, and on which consumer of which proxy
// consumes them.
//
// One proxy leads. It is the exclusive consumer of a durable queue that holds
// what was decided last, as one message. The others announce on a fanout
// exchange what they have and want, and obey what the leader says. A leader
// that dies is replaced by the broker: its exclusive consumer is gone.
//
// The decisions are pure (Core): messages, reports and the time go in, messages
// and plans come out, so that a test can play any number of proxies, failures
// and delays. Node runs a Core over a Transport.
package coordination
