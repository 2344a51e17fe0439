package router_test

import (
	"encoding/binary"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"github.com/shardmq/shardmq/frames"
	"github.com/shardmq/shardmq/shards"
)

// fuzzPolicies are the policies of a setup. Each is made once.
var fuzzPolicies = once(func(setup byte) *shards.Policies {
	images := shards.Definition{ShardsPerNode: 3, Ordered: setup&fuzzOrdered != 0}
	if setup&fuzzHashOn != 0 {
		images.HashOn = hashOn("header:user")
	}
	var policies []*shards.Policy
	for name, d := range map[string]shards.Definition{"images": images,
		"phash": {ShardsPerNode: 2, Hash: shards.HashPhash2}, "xs": {ShardsPerNode: 2, FedBy: []string{"xt"}}} {
		p, err := shards.NewPolicy(name, "/", "^"+name+"$", 0, d)
		if err != nil {
			panic(err)
		}
		policies = append(policies, p)
	}
	return shards.NewPolicies(policies)
})

type fuzzGreeting struct {
	who   byte
	frame frames.Frame
}

// fuzzGreetings are the frames of a setup's handshake. Each is made once.
var fuzzGreetings = once(func(setup byte) (out []fuzzGreeting) {
	say := func(who byte, format string, args ...any) {
		out = append(out, fuzzGreeting{who, parseFrame(words(fmt.Sprintf(format, args...)))})
	}
	capabilities, offer, most := "consumer_cancel_notify=true connection.blocked=true", 131072, 130048
	if setup&fuzzBare != 0 {
		capabilities = ""
	}
	if setup&fuzzSmall != 0 {
		offer, most = 5120, 4096
	}
	say(fuzzBroker, "0 connection.start version-minor=9 mechanisms=PLAIN locales=en_US")
	say(fuzzClient, "0 connection.start-ok mechanism=PLAIN response=secret locale=en_US client-properties={capabilities={%s}}", capabilities)
	say(fuzzBroker, "0 connection.tune channel-max=2047 frame-max=%d heartbeat=60", offer)
	say(fuzzClient, "0 connection.tune-ok channel-max=2047 frame-max=%d heartbeat=60", most)
	say(fuzzClient, "0 connection.open virtual-host=/")
	say(fuzzBroker, "0 connection.open-ok")
	for ch := 1; ch <= 2; ch++ {
		say(fuzzClient, "%d channel.open", ch)
		say(fuzzBroker, "%d channel.open-ok", ch)
	}
	return out
})

// once remembers what fn has made of each setup.
func once[T any](fn func(setup byte) T) func(setup byte) T {
	made := map[byte]T{}
	return func(setup byte) T {
		v, ok := made[setup]
		if !ok {
			v = fn(setup)
			made[setup] = v
		}
		return v
	}
}

// fuzzSeeds are the transcripts, and some conversations in which the ends answer as they should.
func fuzzSeeds(f *testing.F) (seeds [][]byte) {
	files, err := filepath.Glob("testdata/*.txtar")
	require.NoError(f, err)
	short := newShort([]string{"images"}, []string{"rabbit@a"}, map[string]int{"images": 3})
	seed := func(script string) {
		var out []byte
		for line := range strings.Lines(script) {
			out = append(out, fuzzEvent(words(short.read.Replace(strings.TrimRight(line, "\n"))))...)
		}
		seeds = append(seeds, out)
	}
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		require.NoError(f, err)
		for _, part := range archive.Files {
			if part.Name != "setup" {
				seed(string(part.Data))
			}
		}
	}
	for _, script := range fuzzScripts {
		seed(script)
	}
	return seeds
}

// fuzzScripts are in the language of the transcripts, and: reply, deliver and comply CHANNEL CHOICE.
var fuzzScripts = []string{`
client 1 basic.publish exchange=images routing-key=a.b
answer
answer
client 1 header size=3 message-id=m headers={user=a BCC=[x y] CC=[z]}
client 1 body abc
fence 1
reply 1 0
client 1 basic.publish exchange=images routing-key=c.d
client 1 header size=0 headers={user=5 BCC=[x]}
client 1 basic.publish routing-key=images
client 1 header size=0 headers={BCC=wrong}
client 1 confirm.select
reply 1 0
client 1 basic.publish exchange=xt routing-key=k
answer
client 1 header size=0
broker 1 basic.ack delivery-tag=1
`, `
client 1 basic.qos prefetch-count=5
reply 1 0
client 1 basic.consume queue=images consumer-tag=c
answer
answer
reply 1 0
reply 1 0
reply 1 0
reply 1 0
reply 1 0
deliver 1 0
deliver 1 1
deliver 1 2
client 1 basic.ack delivery-tag=2 multiple
other
retarget
reply 1 0
reply 1 0
deliver 1 1
client 1 basic.nack delivery-tag=3 requeue
lend
rotate
answer
reply 1 0
client 1 basic.cancel consumer-tag=c
reply 1 0
reply 1 0
reply 1 0
client 1 channel.close reply-code=200
reply 1 0
client 1 channel.open
reply 1 0
`, `
client 1 tx.select
reply 1 0
client 1 basic.get queue=images
answer
answer
reply 1 7
client 1 basic.ack delivery-tag=1
client 1 tx.commit
reply 1 0
client 1 tx.rollback
reply 1 0
client 2 queue.purge queue=images
answer
reply 2 0
reply 2 0
reply 2 0
client 2 queue.delete queue=images
comply 2 0
reply 2 0
client 2 channel.open
reply 2 0
broker 1 channel.close reply-code=406 reply-text=no class-id=60 method-id=40
comply 1 0
client 0 connection.close reply-code=200
reply 0 0
`, `
client 1 basic.consume queue=images consumer-tag=a
client 2 basic.consume queue=images consumer-tag=b exclusive no-wait
client 1 basic.publish exchange=images routing-key=k
client 1 header size=1
client 1 body a
client 1 basic.recover requeue
answer
answer
answer
reply 1 0
reply 1 0
reply 2 0
deliver 1 3
client 1 queue.declare queue=images passive
broker 0 connection.blocked reason=alarm
tick
broker 0 connection.unblocked
retarget
reply 1 0
reply 1 0
answer
broker 0 connection.close reply-code=320 reply-text=gone
comply 0 0
`, `
client 1 basic.consume queue=images consumer-tag=c
answer
answer
reply 1 0
reply 1 0
reply 1 0
deliver 1 0
broker 1 basic.cancel consumer-tag=~0 no-wait
answer
answer
reply 1 0
deliver 1 1
client 1 basic.recover-async requeue
reply 1 0
retarget
`, `
client 1 basic.consume queue=images consumer-tag=c
answer
answer
client 1 channel.close reply-code=200
reply 1 0
reply 1 0
reply 1 0
reply 1 0
`, `
client 1 exchange.declare exchange=xs type=x-modulus-hash durable
answer
reply 1 0
answer
client 1 exchange.bind destination=xs source=xt
reply 1 0
client 1 queue.bind queue=xs exchange=xs
answer
client 1 exchange.delete exchange=xs
reply 1 0
answer
client 1 basic.publish exchange=xs routing-key=a
refuse
comply 1 0
reply 1 0
`}

func fuzzEvent(w []string) []byte {
	if len(w) == 0 {
		return nil
	}
	switch w[0] {
	case "client", "broker":
		if strings.HasPrefix(w[2], "<") {
			return nil
		}
		fr := parseFrame(w[1:])
		kind := byte(fuzzClient)
		if w[0] == "broker" {
			kind = fuzzBroker
		}
		typ := map[byte]byte{frames.TypeMethod: 0, frames.TypeHeader: 1, frames.TypeBody: 2, frames.TypeHeartbeat: 3}[fr.Type()]
		out := []byte{kind, typ, byte(fr.Channel())}
		return append(binary.BigEndian.AppendUint16(out, uint16(len(fr.Payload()))), fr.Payload()...)
	case "answer":
		return []byte{fuzzAnswer + byte(min(1, len(w)/3))}
	case "refuse":
		return []byte{fuzzRefuse}
	case "reply", "deliver", "comply":
		return []byte{map[string]byte{"reply": fuzzReply, "deliver": fuzzDeliver, "comply": fuzzComply}[w[0]], w[1][0] - '0', w[2][0] - '0'}
	}
	if what, ok := map[string]byte{"retarget": fuzzRetarget, "tick": fuzzTick, "rotate": fuzzRotate, "lend": fuzzLend,
		"fence": fuzzFence, "other": fuzzOther, "raise": fuzzRaise, "lost": fuzzLost}[w[0]]; ok {
		return []byte{what}
	}
	return nil
}
