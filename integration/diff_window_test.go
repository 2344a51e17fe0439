package integration

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/frames"
)

// windowStep is something a client does on its channel, and how many deliveries await their acknowledgement then.
type windowStep struct {
	do    string
	count uint16
	want  int
	per   int // the same where the broker limits each consumer and no whole channel, from 4.3 on
}

const (
	windowPlain  = 20 // messages in a plain queue
	windowPseudo = 40 // and in a pseudo-queue
)

// windowSessions limit consumers and their channel (each, all), consume a plain queue and a pseudo-queue beside it, and acknowledge everything.
var windowSessions = [][]windowStep{
	{{"all", 5, 0, 0}, {"plain", 0, 5, 5}, {"pseudo", 0, 5, 10}, {"ack", 0, 5, 10}, {"each", 0, 55, 10}},
	{{"each", 10, 0, 0}, {"all", 5, 0, 0}, {"pseudo", 0, 5, 5}, {"ack", 0, 5, 5}, {"plain", 0, 5, 10}, {"all", 8, 8, 10}, {"all", 30, 20, 10}, {"ack", 0, 20, 10}, {"all", 0, 20, 10}},
	{{"each", 3, 0, 0}, {"all", 5, 0, 0}, {"pseudo", 0, 3, 5}, {"ack", 0, 3, 5}, {"each", 0, 3, 5}, {"plain", 0, 23, 25}},
	{{"each", 10, 0, 0}, {"all", 15, 0, 0}, {"pseudo", 0, 10, 15}, {"plain", 0, 15, 30}, {"ack", 0, 15, 20}},
	{{"each", 10, 0, 0}, {"pseudo", 0, 10, 10}, {"all", 5, 10, 10}, {"plain", 0, 10, 15}, {"ack", 0, 5, 15}, {"all", 9, 9, 15}, {"all", 0, 20, 15}},
	{{"all", 5, 0, 0}, {"each", 0, 0, 0}, {"pseudo", 0, 40, 40}, {"plain", 0, 60, 60}},
	{{"each", 3, 0, 0}, {"all", 0, 0, 0}, {"pseudo", 0, 3, 40}, {"plain", 0, 6, 60}},
	{{"all", 5, 0, 0}, {"plain", 0, 5, 5}, {"each", 10, 20, 5}, {"all", 7, 20, 5}, {"pseudo", 0, 20, 12}, {"each", 10, 30, 12}},
	{{"pseudo", 0, 40, 40}, {"all", 5, 40, 40}, {"plain", 0, 40, 45}, {"ack", 0, 5, 5}},
}

// pseudoWindows: basic.qos in any order, for each consumer and for the whole channel.
func pseudoWindows(d *diff) {
	for i, steps := range windowSessions {
		w := window{d: d, k: d.talk(fmt.Sprint("session ", i))}
		w.plain, w.pseudo = d.name(fmt.Sprint("plain-", i)), d.pseudo(w.k, fmt.Sprint("limited-", i))
		w.k.ask1(&frames.QueueDeclare{Queue: w.plain})
		for n := range windowPlain {
			w.k.write(message(1, "", w.plain, fmt.Sprint(n)))
		}
		for n := range windowPseudo {
			w.k.write(message(1, w.pseudo, fmt.Sprint("k", n), fmt.Sprint(n)))
		}
		w.ready = func(want int) {
			eventually(d.t, fmt.Sprintf("session %d: %d messages ready", i, want), func() string { return w.differs(want) })
		}
		w.ready(windowPlain + windowPseudo)
		for _, s := range steps {
			w.step(s)
		}
		w.k.sync(1)
		require.Empty(d.t, w.differs(w.last), "session %d: later", i)
		w.k.seen[1] = slices.DeleteFunc(w.k.seen[1], func(line string) bool { return strings.Contains(line, "basic.deliver") }) // in any order
		w.k.bye()
	}
}

// window is one client of pseudoWindows.
type window struct {
	d             *diff
	k             *talk
	plain, pseudo string
	acked         int
	last          int // messages ready after the last step
	ready         func(want int)
}

// differs says how many messages are ready instead.
func (w *window) differs(want int) string {
	sum := 0
	for _, q := range []string{w.plain, w.pseudo} {
		s := w.k.ask(1, &frames.QueueDeclare{Queue: q, Passive: true})
		w.k.forget(s)
		sum += int(s.method.(*frames.QueueDeclareOk).MessageCount)
	}
	if sum != want {
		return fmt.Sprintf("there are %d", sum)
	}
	return ""
}

func (w *window) step(s windowStep) {
	w.d.t.Helper()
	was := windowPlain + windowPseudo - w.acked - w.last
	switch s.do {
	case "each", "all":
		w.k.ask1(&frames.BasicQos{PrefetchCount: s.count, Global: s.do == "all"})
	case "ack":
		w.k.sync(1)
		w.k.write(method(1, &frames.BasicAck{Multiple: true}))
		w.acked += was
	default:
		w.k.ask1(&frames.BasicConsume{Queue: map[string]string{"plain": w.plain, "pseudo": w.pseudo}[s.do], ConsumerTag: s.do})
	}
	want := s.want
	if w.d.version == "4.3" {
		want = s.per
	}
	w.last = windowPlain + windowPseudo - w.acked - want
	w.ready(w.last)
	w.k.note(1, "%s %d: %d", s.do, s.count, want)
}
