package router_test

import (
	"github.com/shardmq/shardmq/frames"
	"github.com/shardmq/shardmq/router"
)

// clientRead feeds whole frames that one read of the client's socket brings, as the proxy does.
func (r *rig) clientRead(fs ...frames.Frame) { r.clientReads(nil, fs...) }

// brokerRead is clientRead for the broker's socket.
func (r *rig) brokerRead(fs ...frames.Frame) { r.brokerReads(nil, fs...) }

// clientReads feeds whole frames that come in several reads, each of which ends where cuts says, and the last one with the last frame.
func (r *rig) clientReads(cuts []int, fs ...frames.Frame) {
	run := func(b []byte, out *router.Parts, at int) int {
		return r.conn.ClientRun(b, r.conn.ClientFrameMax(), out, at)
	}
	r.read(fs, cuts, run, r.client, r.conn.TakeUp, r.up)
}

// brokerReads is clientReads for the broker's socket.
func (r *rig) brokerReads(cuts []int, fs ...frames.Frame) {
	r.read(fs, cuts, r.conn.BrokerRun, r.broker, r.conn.TakeDown, r.down)
}

func (r *rig) read(fs []frames.Frame, cuts []int, run func([]byte, *router.Parts, int) int, one func(frames.Frame) router.Verdict,
	take func([]byte) []byte, sink func(frames.Frame)) {
	var all []byte
	for _, f := range fs {
		all = append(all, f...)
	}
	cuts = append(cuts[:len(cuts):len(cuts)], len(all))
	for at := 0; at < len(all); {
		end := cuts[0] // of what has been read
		var out router.Parts
		n := run(all[at:end:end], &out, at)
		if n == 0 {
			f, err := frames.Next(all[at:end:end], 0)
			switch {
			case err == nil:
				one(f)
				at += len(f)
			case len(cuts) == 1:
				panic(err)
			default:
				cuts = cuts[1:]
			}
			continue
		}
		var wire []byte
		own := take(nil)
		used := 0
		for _, p := range out.List {
			if p.From == router.FromOwn {
				wire, used = append(wire, own[p.Start:p.End]...), p.End
			} else {
				wire = append(wire, all[at : at+n][p.Start-at:p.End-at]...)
			}
		}
		for i := range all[at : at+n] { // as the next read into the same buffer would: the router must keep nothing of it
			all[at+i] = 0xEE
		}
		at += n
		each(append(wire, own[used:]...), sink)
		r.flush()
	}
}
