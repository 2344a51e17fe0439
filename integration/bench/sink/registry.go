package sink

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"

	"github.com/shardmq/shardmq/frames"
)

// exchange is what a declare says about one.
type exchange struct {
	kind                          string
	durable, autoDelete, internal bool
	alternate                     string
}

type queue struct {
	durable, exclusive, autoDelete bool
	consumers                      uint32
	load                           *Load
}

type bindingKey struct{ exchange, key string }

// registry is what has been declared, for all vhosts together. Safe for concurrent use.
type registry struct {
	mu        sync.Mutex
	exchanges map[string]exchange
	queues    map[string]*queue
	bindings  map[bindingKey][]string // queue names
	named     int                     // server-named queues so far
}

func newRegistry() *registry {
	r := &registry{exchanges: map[string]exchange{}, queues: map[string]*queue{}, bindings: map[bindingKey][]string{}}
	for name, kind := range map[string]string{
		"": "direct", "amq.direct": "direct", "amq.fanout": "fanout", "amq.topic": "topic", "amq.headers": "headers",
	} {
		r.exchanges[name] = exchange{kind: kind, durable: true}
	}
	return r
}

func notFound(kind, name string, by frames.MethodID) *frames.Exception {
	return &frames.Exception{Code: frames.NotFound, Text: fmt.Sprintf("no %s '%s' in vhost '/'", kind, name), Method: by}
}

// declareExchange has RabbitMQ's answers: the first property that differs is named in the text.
func (r *registry) declareExchange(m *frames.ExchangeDeclare) *frames.Exception {
	r.mu.Lock()
	defer r.mu.Unlock()
	old, exists := r.exchanges[m.Exchange]
	if m.Passive {
		if !exists {
			return notFound("exchange", m.Exchange, m.ID())
		}
		return nil
	}
	if !slices.Contains([]string{"direct", "fanout", "topic", "headers"}, m.Type) {
		return &frames.Exception{Code: frames.CommandInvalid, Text: fmt.Sprintf("unknown exchange type '%s'", m.Type), Method: m.ID()}
	}
	alternate, _ := m.Arguments.LookupString("alternate-exchange")
	asked := exchange{m.Type, m.Durable, m.AutoDelete, m.Internal, string(alternate)}
	if !exists {
		r.exchanges[m.Exchange] = asked
		return nil
	}
	for _, p := range []struct {
		name          string
		received, now any
	}{
		{"type", quoted(asked.kind), quoted(old.kind)},
		{"durable", quoted(strconv.FormatBool(asked.durable)), quoted(strconv.FormatBool(old.durable))},
		{"auto_delete", quoted(strconv.FormatBool(asked.autoDelete)), quoted(strconv.FormatBool(old.autoDelete))},
		{"internal", quoted(strconv.FormatBool(asked.internal)), quoted(strconv.FormatBool(old.internal))},
		{"alternate-exchange", argument(asked.alternate), argument(old.alternate)},
	} {
		if p.received != p.now {
			return &frames.Exception{Code: frames.PreconditionFailed, Method: m.ID(), Text: fmt.Sprintf(
				"inequivalent arg '%s' for exchange '%s' in vhost '/': received %s but current is %s", p.name, m.Exchange, p.received, p.now)}
		}
	}
	return nil
}

func quoted(s string) string { return "'" + s + "'" }

func argument(s string) string {
	if s == "" {
		return "none"
	}
	return "the value " + quoted(s) + " of type 'longstr'"
}

func (r *registry) deleteExchange(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.exchanges, name)
	maps.DeleteFunc(r.bindings, func(k bindingKey, _ []string) bool { return k.exchange == name })
}

// declareQueue returns the name, which it makes up when none is given, and the consumer count.
func (r *registry) declareQueue(m *frames.QueueDeclare) (string, uint32, *frames.Exception) {
	r.mu.Lock()
	defer r.mu.Unlock()
	name := m.Queue
	if q := r.queues[name]; q != nil {
		if !m.Passive && q.durable != m.Durable {
			return "", 0, &frames.Exception{Code: frames.PreconditionFailed, Method: m.ID(), Text: fmt.Sprintf(
				"inequivalent arg 'durable' for queue '%s' in vhost '/': received '%t' but current is '%t'", name, m.Durable, q.durable)}
		}
		return name, q.consumers, nil
	}
	if m.Passive {
		return "", 0, notFound("queue", name, m.ID())
	}
	if name == "" {
		r.named++
		name = fmt.Sprintf("amq.gen-%d", r.named)
	}
	r.queues[name] = &queue{durable: m.Durable, exclusive: m.Exclusive, autoDelete: m.AutoDelete}
	return name, 0, nil
}

// need says what is missing of an exchange and a queue. The caller holds mu.
func (r *registry) need(exchange, queue string, by frames.MethodID) *frames.Exception {
	if _, ok := r.exchanges[exchange]; !ok {
		return notFound("exchange", exchange, by)
	}
	if r.queues[queue] == nil {
		return notFound("queue", queue, by)
	}
	return nil
}

func (r *registry) bind(m *frames.QueueBind) *frames.Exception {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.need(m.Exchange, m.Queue, m.ID()); e != nil {
		return e
	}
	k := bindingKey{m.Exchange, m.RoutingKey}
	if !slices.Contains(r.bindings[k], m.Queue) {
		r.bindings[k] = append(r.bindings[k], m.Queue)
	}
	return nil
}

func (r *registry) unbind(m *frames.QueueUnbind) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := bindingKey{m.Exchange, m.RoutingKey}
	r.bindings[k] = slices.DeleteFunc(r.bindings[k], func(q string) bool { return q == m.Queue })
}

func (r *registry) deleteQueue(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.queues, name)
	for k, queues := range r.bindings {
		r.bindings[k] = slices.DeleteFunc(queues, func(q string) bool { return q == name })
	}
}

// boundTo returns the queues that a key leads to from an exchange.
func (r *registry) boundTo(exchange, key string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.bindings[bindingKey{exchange, key}])
}

// consume adds (1) or removes (-1) a consumer and returns what the queue is loaded with.
func (r *registry) consume(name string, delta int) (*Load, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	q := r.queues[name]
	if q == nil {
		return nil, false
	}
	q.consumers = uint32(int(q.consumers) + delta)
	return q.load, true
}
