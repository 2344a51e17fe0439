package proxy

import (
	"encoding/binary"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/shardmq/shardmq/config/certs"
	"github.com/shardmq/shardmq/frames"
	"github.com/shardmq/shardmq/router/routertest"
	"github.com/shardmq/shardmq/shards"
)

// What the fuzzer's input does: one octet that says what happens. Frames are followed by type, channel, size (16 bits) and payload.
const (
	playClient       = iota // a frame
	playBroker              // a frame
	playClientOctets        // followed by their number, and the octets
	playBrokerOctets
	playClientBody // a body frame: channel, size (16 bits)
	playBrokerBody
	playReply   // the broker's, to the oldest request: channel, choice
	playDeliver // to some consumer: channel, choice
	playComply  // the client answers a close: channel, choice
	playCut     // the next frame comes in two: where (16 bits)
	playJoin    // the next frame comes together with the one behind it
	playClientStalls
	playBrokerStalls // it stops reading, or goes on
	playPause        // for some time: choice
	playGoAway       // the proxy stops
	playOther        // another connection's consumer comes or goes
	playKinds
)

// What a session starts with.
const (
	playHandshake = 1 << iota // has been made, and two channels are open
	playSmall                 // with frames as small as may be
	playPlain                 // there is no sharded exchange
	playAlone                 // there is no node: the client's octets meet the proxy's own greeting
	playEnding                // and more: what ends the session
)

// What ends it.
const (
	clientCloses = iota
	clientFinishes
	brokerCloses
	brokerFinishes
	bothClose
	proxyDrains
	playEndings
)

// FuzzSession plays whole sessions over connections in memory: octets of the client's and the broker's, in any order and cut anywhere, come
// through reader, router and writers. Nothing panics; what reaches either end is whole frames that routertest has no objection to, as they came where
// nothing is sharded; what is kept is bounded by the input; the session ends when one of the ends does, and no goroutine is left.
func FuzzSession(f *testing.F) {
	for _, seed := range playSeeds() {
		f.Add(seed.setup, seed.input)
	}
	f.Fuzz(func(t *testing.T, setup byte, input []byte) {
		synctest.Test(t, func(t *testing.T) {
			p := newPlay(t, setup)
			for rest := input; len(rest) > 0; {
				rest = p.step(rest)
				p.check()
			}
			p.settle()
			p.finish(setup / playEnding % playEndings)
		})
	})
}

// upstreamTLS is made once: the options' default reads files.
var upstreamTLS = func() *certs.Live {
	loaded, _ := certs.LoadClient(certs.ClientOptions{})
	return certs.NewLive(loaded)
}()

type play struct {
	t              *testing.T
	srv            *server
	s              *session // nil: alone
	logs           *observer.ObservedLogs
	talk           *routertest.Talk
	client, broker playEnd
	sent           int
	cut            int
	joined         bool
	alone, blocked bool
	garbled        bool // something was sent that is no frame, or a part of one
	stopping       bool
	topology       *shards.Topology // nil: nothing is sharded
	others         []*shards.Member
}

// playEnd is one end of the session.
type playEnd struct {
	conn    *memoryConn
	out     []byte // sent, the last frame of it not whole
	in      []byte // got, likewise
	stalled bool
}

// stallLimit is how much an end takes that does not read, in octets.
const stallLimit = 1 << 14

func newPlay(t *testing.T, setup byte) *play {
	core, logs := observer.New(zapcore.ErrorLevel)
	o := Options{UpstreamTLS: upstreamTLS, Log: zap.New(core), Version: "test", HandshakeTimeout: time.Minute, DrainTimeout: time.Minute}
	p := &play{t: t, logs: logs, talk: routertest.New("~", testExchange, "sharding: ", frames.EmptyMarker)}
	near, far := newMemoryConn(stallLimit)
	p.client = playEnd{conn: far}
	t.Cleanup(p.tidy)
	if setup&playAlone != 0 {
		p.alone = true
		p.srv = newServer(o)
		p.srv.start(near, Listener{})
		return p
	}
	if setup&playPlain == 0 {
		o.Policies = testPolicies(t)
	}
	o.Nodes = []Node{{Name: "rabbit@fake", Address: "192.0.2.3:5672"}}
	p.srv = newServer(o)
	p.srv.tagPrefix = "~"
	if setup&playPlain == 0 {
		p.topology = testTopology(t, &fakeControl{})
		p.srv.vhosts["/"] = &vhost{name: "/", topology: p.topology}
	}
	p.s = newSession(p.srv, Listener{}, near, 1)
	near, far = newMemoryConn(stallLimit)
	p.broker = playEnd{conn: far}
	p.s.node, p.s.broker, p.s.in = p.srv.upstreams()[0], near, newReader(near)
	p.s.up = outlet{conn: near, take: p.s.rt.TakeUp, size: p.s.rt.PendingUp}
	p.srv.sessions[p.s] = struct{}{}
	p.srv.running.Add(1)
	p.s.over = p.srv.running.Done
	p.srv.crew.start(p.s.converse)
	if setup&playHandshake != 0 {
		p.greet(setup&playSmall != 0)
	}
	return p
}

func (p *play) greet(small bool) {
	tune := *tuneMethod
	tune.Heartbeat = 0
	if small {
		tune.FrameMax = frames.MinFrameMax + 1024
	}
	say := func(client bool, id uint16, m frames.Method) { p.frame(client, frames.AppendMethod(nil, id, m)) }
	say(false, 0, startMethod)
	say(true, 0, startOk("consumer_cancel_notify", "connection.blocked"))
	say(false, 0, &tune)
	say(true, 0, &frames.ConnectionTuneOk{ChannelMax: tune.ChannelMax, FrameMax: tune.FrameMax - 1024})
	say(true, 0, &frames.ConnectionOpen{VirtualHost: "/"})
	say(false, 0, &frames.ConnectionOpenOk{})
	for id := uint16(1); id <= 2; id++ {
		say(true, id, &frames.ChannelOpen{})
		say(false, id, &frames.ChannelOpenOk{})
	}
}

// step does what the input says next and returns the rest of it.
func (p *play) step(in []byte) []byte {
	what, in := in[0]%playKinds, in[1:]
	size := map[byte]int{playClient: 4, playBroker: 4, playClientOctets: 1, playBrokerOctets: 1, playClientBody: 3, playBrokerBody: 3,
		playReply: 2, playDeliver: 2, playComply: 2, playCut: 2, playPause: 1}[what]
	if len(in) < size {
		return nil
	}
	arg, in := in[:size], in[size:]
	most := 0
	switch what {
	case playClient, playBroker:
		most = int(binary.BigEndian.Uint16(arg[2:]))
	case playClientOctets, playBrokerOctets:
		most = int(arg[0])
	}
	if len(in) < most {
		return nil
	}
	payload, in := in[:most], in[most:]
	client := what == playClient || what == playClientOctets || what == playClientBody || what == playComply
	switch what {
	case playClient, playBroker:
		types := []byte{frames.TypeMethod, frames.TypeHeader, frames.TypeBody, frames.TypeHeartbeat}
		p.frame(client, frames.AppendFrame(nil, types[arg[0]%4], uint16(arg[1]%4), payload))
	case playClientOctets, playBrokerOctets:
		p.garbled = true
		p.talk.Release()
		p.send(client, payload)
	case playClientBody, playBrokerBody:
		p.frame(client, frames.AppendFrame(nil, frames.TypeBody, uint16(arg[0]%4), pattern(int(binary.BigEndian.Uint16(arg[1:])))))
	case playReply:
		p.frame(false, p.talk.Answer(uint16(arg[0]%4), arg[1]))
	case playDeliver:
		p.frame(false, p.talk.Delivery(uint16(arg[0]%4), arg[1]))
	case playComply:
		p.frame(true, p.talk.Comply(uint16(arg[0]%4)))
	default:
		p.event(what, arg)
	}
	return in
}

func (p *play) event(what byte, arg []byte) {
	switch what {
	case playCut:
		p.cut = int(binary.BigEndian.Uint16(arg))
	case playJoin:
		p.joined = true
	case playClientStalls:
		p.client.stalled = !p.client.stalled
	case playBrokerStalls:
		p.broker.stalled = !p.broker.stalled
	case playPause:
		<-time.After([]time.Duration{time.Millisecond, 250 * time.Millisecond, time.Second, 6 * time.Second}[arg[0]%4])
	case playGoAway:
		if p.s != nil && !p.stopping {
			p.stopping = true
			p.s.goAway()
		}
	case playOther:
		p.other()
	}
	p.drain()
}
