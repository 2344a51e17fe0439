package router_test

import (
	"github.com/shardmq/shardmq/frames"
	"github.com/shardmq/shardmq/router"
)

// clientRead feeds whole frames that one read of the client's socket brings, as the proxy does.
func (r *rig) clientRead(fs ...frames.Frame) {
	run := func(b []byte, out *router.Parts) int { return r.conn.ClientRun(b, r.conn.ClientFrameMax(), out, 0) }
	r.read(fs, run, r.client, r.conn.TakeUp, r.up)
}

// brokerRead is clientRead for the broker's socket.
func (r *rig) brokerRead(fs ...frames.Frame) {
	run := func(b []byte, out *router.Parts) int { return r.conn.BrokerRun(b, out, 0) }
	r.read(fs, run, r.broker, r.conn.TakeDown, r.down)
}

func (r *rig) read(fs []frames.Frame, run func([]byte, *router.Parts) int, one func(frames.Frame) router.Verdict, take func([]byte) []byte, sink func(frames.Frame)) {
	var b []byte
	for _, f := range fs {
		b = append(b, f...)
	}
	for len(b) > 0 {
		var out router.Parts
		n := run(b, &out)
		if n == 0 {
			f, err := frames.Next(b, 0)
			if err != nil {
				panic(err)
			}
			one(f)
			b = b[len(f):]
			continue
		}
		var wire []byte
		own := take(nil)
		used := 0
		for _, p := range out.List {
			if p.From == router.FromOwn {
				wire, used = append(wire, own[p.Start:p.End]...), p.End
			} else {
				wire = append(wire, b[p.Start:p.End]...)
			}
		}
		for i := range b[:n] { // as the next read into the same buffer would: the router must keep nothing of it
			b[i] = 0xEE
		}
		b = b[n:]
		each(append(wire, own[used:]...), sink)
		r.flush()
	}
}
