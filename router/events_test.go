package router_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/frames"
	"github.com/shardmq/shardmq/router"
	"github.com/shardmq/shardmq/shards"
)

// event plays one line of a script.
func (p *player) event(w []string) {
	p.now = nil
	switch w[0] {
	case "client":
		p.now = parseFrame(w[1:])
		if p.client(p.now) == router.Drop {
			p.print("drop")
		}
	case "broker":
		p.now = parseFrame(w[1:])
		if p.broker(p.now) == router.Drop {
			p.print("drop")
		}
	case "answer":
		p.answerEvent(w[1:])
	case "retarget": // the oldest target, or the one with that place
		i := 0
		if len(w) > 1 {
			i = p.number(w[1])
		}
		p.mu.Lock()
		move := p.moves[i]
		p.moves = slices.Delete(p.moves, i, i+1)
		p.mu.Unlock()
		move()
	case "aim": // a target that no group has made: aim CONSUMER [ordered] QUEUE...
		p.version++
		to := shards.Target{Version: 100 + p.version}
		for _, q := range w[2:] {
			if to.Ordered = to.Ordered || q == "ordered"; q != "ordered" {
				to.Shards = append(to.Shards, untext(q))
			}
		}
		p.conn.Retarget(1, uint64(p.number(w[1])), to)
	case "wait":
		d, err := time.ParseDuration(w[1])
		require.NoError(p.t, err)
		<-time.After(d)
		synctest.Wait()
	case "tick":
		p.conn.Tick()
	case "fence":
		p.print(fmt.Sprintf("on %d channels", p.conn.Fence(uint64(p.number(w[1])))))
	case "reload": // with this policy and no other
		policy, _ := parsePolicy(p.t, w[1], w[2:])
		p.topo.Start(p.t.Context())
		p.topo.Reconfigure(shards.NewPolicies([]*shards.Policy{policy}), nil)
		<-time.After(5 * time.Second)
		synctest.Wait()
	case "rotate":
		x := p.exchange(w[1])
		if !slices.Contains(p.conn.Rotating(), x) {
			p.print("nothing to look at")
			break
		}
		counts, err := p.topo.Counts(p.t.Context(), x)
		require.NoError(p.t, err)
		p.conn.Rotate(x, x.State().Covered(), counts)
	case "lend":
		x := p.exchange(w[1])
		counts, err := p.topo.Counts(p.t.Context(), x)
		require.NoError(p.t, err)
		if !slices.Contains(p.conn.Lenders(), x) {
			p.print("nobody is idle")
		} else if p.conn.Lend(x, x.State().Covered(), counts) {
			p.print("messages wait")
		}
	case "set":
		p.set(w[1:])
	case "other":
		p.other(w[1:])
	case "raise":
		p.conn.RaiseConnection(&frames.Exception{Code: frames.Code(p.number(w[1])), Text: untext(w[2])})
	case "refuse":
		p.conn.Refuse(&frames.Exception{Code: frames.FrameError, Text: untext(w[1])}, len(w) > 2 && w[2] == "in-frame")
	case "shutdown":
		p.conn.Shutdown()
	case "lost":
		p.conn.UpstreamEnded()
	case "state":
		c := p.conn
		p.print(fmt.Sprintf("established=%t closing=%t closed=%t ops=%d held=%d holding=%t rotating=%t", c.Established(), c.Closing(), c.Closed(),
			c.Ops(), c.HeldBytes(), c.Holding(), c.HasRotating()))
	default:
		p.t.Fatalf("no such event: %q", w)
	}
	p.flush()
}

func (p *player) printAsk(a router.Ask) {
	p.asks = append(p.asks, a)
	p.open = append(p.open, len(p.asks))
	s := fmt.Sprintf("ask #%d ", len(p.asks))
	switch a.Kind {
	case router.AskResolve:
		s += "resolve " + a.Exchange.Name
		if a.Force {
			s += " force"
		}
	case router.AskBindWords:
		s += fmt.Sprintf("bind-words %s %d", a.Exchange.Name, a.Words)
	case router.AskPrepareDeclare:
		s += "prepare-declare " + specText(a.Spec)
	case router.AskCounts:
		s += "counts " + a.Exchange.Name
	case router.AskForget:
		s += "forget " + a.Exchange.Name
	case router.AskOpen:
		s += "open " + a.Exchange.Name
	case router.AskJoin:
		s += fmt.Sprintf("join %s consumer=%d", a.Exchange.Name, a.Consumer)
		if a.Exclude {
			s += " exclusive"
		}
	default:
		p.t.Fatalf("unknown question %d", a.Kind)
	}
	p.print(s)
}

func specText(s shards.ExchangeSpec) string {
	out := s.Name + " type=" + s.Type
	for _, f := range []struct {
		name string
		set  bool
	}{{"durable", s.Durable}, {"auto-delete", s.AutoDelete}, {"internal", s.Internal}} {
		if f.set {
			out += " " + f.name
		}
	}
	if s.AlternateExchange != "" {
		out += " alternate-exchange=" + s.AlternateExchange
	}
	return out
}

// report prints what the proxy is told, and sees to it.
func (p *player) report(a router.Ask) {
	who := fmt.Sprintf("member %d", 1+slices.Index(p.members, a.Member))
	lent := ""
	if a.Lent {
		lent = " lent"
	}
	if a.Late {
		lent += " late"
	}
	switch a.Kind {
	case router.AskLeave:
		p.print(who + " leaves")
	case router.AskAttached:
		p.print(fmt.Sprintf("%s %+d %s", who, a.Delta, a.Queue))
	case router.AskClaim:
		p.print(who + " claims " + a.Queue + lent)
	case router.AskReleased:
		p.print(who + " releases " + a.Queue + lent)
	case router.AskAimed:
		p.print(fmt.Sprintf("%s goes by version=%d", who, a.Version))
	case router.AskUnsettled:
		p.print(fmt.Sprintf("unsettled %+d %s", a.Delta, a.Queue))
	case router.AskFenced:
		p.print(fmt.Sprintf("fenced %d", a.Fence))
	case router.AskLog:
		p.print("log  " + a.Text)
	}
	p.tell(a)
}

// answerEvent is "answer [#N] [error [CODE] TEXT]"; without a number the oldest question is meant.
func (p *player) answerEvent(w []string) {
	at := 0
	if len(w) > 0 && w[0][0] == '#' {
		at = slices.Index(p.open, p.number(w[0]))
		w = w[1:]
	}
	require.True(p.t, at >= 0 && at < len(p.open), "no such question is open")
	a := p.asks[p.open[at]-1]
	p.open = slices.Delete(p.open, at, at+1)
	var r router.Answer
	switch {
	case len(w) == 3:
		r.Err = &shards.BrokerError{Code: uint16(p.number(w[1])), Text: untext(w[2])}
	case len(w) == 2:
		r.Err = errors.New(untext(w[1]))
	default:
		r = p.answer(a)
	}
	if r.Member != nil {
		p.members = append(p.members, r.Member)
		p.print(fmt.Sprintf("member %d target version=%d %s", len(p.members), r.Target.Version, names(r.Target.Shards)))
	}
	p.conn.Answer(a, r)
}

// set changes the cluster: "set queue NAME messages=N consumers=N", "set exchange NAME type=T durable", "set no-queue NAME",
// "set no-exchange NAME".
func (p *player) set(w []string) {
	name := untext(w[1])
	fields := map[string]string{}
	for _, f := range w[2:] {
		k, v, _ := strings.Cut(f, "=")
		fields[k] = v
	}
	has := func(k string) bool { _, ok := fields[k]; return ok }
	count := func(k string) uint32 {
		if !has(k) {
			return 0
		}
		return uint32(p.number(fields[k]))
	}
	p.cluster.use(func() {
		switch w[0] {
		case "queue":
			p.cluster.queues[name] = shards.Count{Messages: count("messages"), Consumers: count("consumers"), Exists: true}
		case "no-queue":
			delete(p.cluster.queues, name)
		case "exchange":
			p.cluster.exchanges[name] = shards.ExchangeSpec{Name: name, Type: fields["type"], Durable: has("durable"),
				AutoDelete: has("auto-delete"), Internal: has("internal"), AlternateExchange: fields["alternate-exchange"]}
		case "no-exchange":
			delete(p.cluster.exchanges, name)
		default:
			p.t.Fatalf("set: %q", w)
		}
	})
}

// other is a consumer of another connection: "other join EXCHANGE [exclusive]", "other leave N".
func (p *player) other(w []string) {
	if w[0] == "leave" {
		p.others[p.number(w[1])-1].Leave()
		return
	}
	x := p.exchange(w[1])
	n := len(p.others) + 1
	tell := func(to shards.Target) { p.print(fmt.Sprintf("other %d target %s", n, names(to.Shards))) }
	m, to, err := p.topo.Group(x).Join(p.t.Context(), shards.JoinSpec{Exclusive: len(w) > 2, Mode: x.Policy().Definition.Consumers, Notify: tell})
	require.NoError(p.t, err)
	p.others = append(p.others, m)
	tell(to)
}
