package integration

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// pump publishes, by several publishers on connections of their own, at a steady pace.
type pump struct {
	f *fleet
	l *ledger
	o pumpOptions

	cancel  context.CancelFunc
	running sync.WaitGroup
	valve   sync.RWMutex // held for writing: nothing is published or awaits its confirm
}

type pumpOptions struct {
	publishers int
	keys       int           // of each publisher: a batch is one message of each
	every      time.Duration // from batch to batch
	persistent bool
	seed       uint64
	ahead      int  // publish only while fewer messages are not consumed; default 500
	declare    bool // the exchange may have gone: declare it on every new connection
}

// pump starts publishing, until stop.
func (f *fleet) pump(l *ledger, o pumpOptions) *pump {
	if o.ahead == 0 {
		o.ahead = 500
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &pump{f: f, l: l, o: o, cancel: cancel}
	for i := range o.publishers {
		own := &publisher{pump: p, rng: rand.New(rand.NewPCG(o.seed, uint64(i)))}
		for k := range o.keys {
			own.keys = append(own.keys, keyState{name: keyName(i, k)})
		}
		p.running.Go(func() { own.run(ctx) })
	}
	f.t.Cleanup(p.stop)
	return p
}

// stop ends publishing. What is not confirmed by then may have arrived or not.
func (p *pump) stop() {
	p.cancel()
	p.running.Wait()
}

// hold waits for the confirms of what was published and publishes no more until release.
func (p *pump) hold()    { p.valve.Lock() }
func (p *pump) release() { p.valve.Unlock() }

// everyKey waits until n more messages of every single key are confirmed.
func (p *pump) everyKey(n int) {
	p.f.t.Helper()
	until := map[string]int{}
	for i := range p.o.publishers {
		for k := range p.o.keys {
			key := keyName(i, k)
			until[key] = p.l.confirmsOf(key) + n
		}
	}
	eventually(p.f.t, fmt.Sprintf("%d more confirms of every key", n), func() string {
		for key, want := range until {
			if p.l.confirmsOf(key) < want {
				return "there is a key without, " + key
			}
		}
		return ""
	})
}

func keyName(publisher, key int) string { return fmt.Sprintf("key-%d-%d", publisher, key) }

type publisher struct {
	pump *pump
	rng  *rand.Rand
	keys []keyState
}

// keyState is what a publisher knows of one key. A message has to be confirmed before the next one of its key goes out,
// so that numbers reach the shard in order.
type keyState struct {
	name         string
	number, copy int
	unconfirmed  bool
}

func (k *keyState) next() (message, copied string) {
	if k.unconfirmed {
		k.copy++
	} else {
		k.number, k.copy, k.unconfirmed = k.number+1, 0, true
	}
	message = fmt.Sprintf("%s/%d", k.name, k.number)
	return message, fmt.Sprintf("%s/%d", message, k.copy)
}

func (p *publisher) run(ctx context.Context) {
	retry := time.NewTicker(100 * time.Millisecond)
	defer retry.Stop()
	for ctx.Err() == nil {
		proxy := p.pump.f.anyone(p.rng)
		err := p.session(ctx, proxy)
		if err == nil || ctx.Err() != nil {
			continue
		}
		if !p.pump.f.mayLose(proxy) {
			p.pump.l.problem("a publisher at proxy %d: %v", proxy, err)
		}
		p.pump.l.reconnected()
		select {
		case <-retry.C:
		case <-ctx.Done():
		}
	}
}

// session publishes over one connection until something fails.
func (p *publisher) session(ctx context.Context, proxy int) error {
	conn, _, err := p.pump.f.dial(proxy)
	if err != nil {
		return err
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	if err := ch.Confirm(false); err != nil {
		return err
	}
	if p.pump.o.declare {
		if err := ch.ExchangeDeclare(p.pump.f.o.exchange, modulusHash, true, false, false, false, nil); err != nil {
			return err
		}
	}
	returns := ch.NotifyReturn(make(chan amqp.Return, 10*len(p.keys))) // more than are ever under way
	tick := time.NewTicker(p.pump.o.every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if p.pump.l.backlog() > p.pump.o.ahead {
			continue
		}
		p.pump.valve.RLock()
		err := p.batch(ctx, ch, returns)
		p.pump.valve.RUnlock()
		if err != nil {
			return err
		}
	}
}

// batch publishes a message of every key and waits for what becomes of them.
func (p *publisher) batch(ctx context.Context, ch *amqp.Channel, returns <-chan amqp.Return) error {
	mode := amqp.Transient
	if p.pump.o.persistent {
		mode = amqp.Persistent
	}
	confirms := make([]*amqp.DeferredConfirmation, len(p.keys))
	messages := make([]string, len(p.keys))
	var failed error
	for i := range p.keys {
		k := &p.keys[i]
		var copied string
		messages[i], copied = k.next()
		m := amqp.Publishing{DeliveryMode: mode, MessageId: messages[i], Body: []byte(copied)}
		var err error
		if confirms[i], err = ch.PublishWithDeferredConfirmWithContext(ctx, p.pump.f.o.exchange, k.name, true, false, m); err != nil {
			failed = err
			break
		}
	}
	acked := make([]bool, len(p.keys))
	for i, c := range confirms {
		if c != nil {
			ok, err := c.WaitContext(ctx)
			acked[i] = ok && err == nil
		}
	}
	returned := drainReturns(returns) // a return comes before its confirm
	missing := 0
	for i := range p.keys {
		if acked[i] && !returned[messages[i]] {
			p.keys[i].unconfirmed = false
			p.pump.l.confirm(messages[i])
		} else {
			missing++
		}
	}
	if failed == nil && missing > 0 && ctx.Err() == nil {
		if ch.IsClosed() {
			return errors.New("the channel was closed")
		}
		if !p.pump.f.faulty.Load() {
			return fmt.Errorf("%d messages of a batch were refused or returned", missing)
		}
	}
	return failed
}

func drainReturns(returns <-chan amqp.Return) map[string]bool {
	all := map[string]bool{}
	for {
		select {
		case r, ok := <-returns:
			if !ok {
				return all
			}
			all[r.MessageId] = true
		default:
			return all
		}
	}
}
