package frames_test

import (
	"encoding/hex"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/frames"
)

// fill sets every field of a method to something random that the wire can carry.
func fill(t testing.TB, rng *rand.Rand, m frames.Method) {
	t.Helper()
	v := reflect.ValueOf(m).Elem()
	for i := range v.NumField() {
		switch f := v.Field(i); p := f.Addr().Interface().(type) {
		case *bool:
			*p = rng.IntN(2) == 0
		case *byte:
			*p = byte(rng.Uint32())
		case *uint16:
			*p = uint16(rng.Uint32())
		case *uint32:
			*p = rng.Uint32()
		case *uint64:
			*p = rng.Uint64()
		case *string:
			*p = strings.Repeat("é", rng.IntN(128))
		case *[]byte:
			*p = []byte(strings.Repeat("y", 1+rng.IntN(300)))
		case *frames.Table:
			*p = frames.AppendTable(nil, "t", randomTable(rng, 3))
		default:
			require.Failf(t, "field type without a filler", "%s", f.Type())
		}
	}
}

func TestEveryMethodRoundTrips(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, id := range frames.Methods() {
		t.Run(id.String(), func(t *testing.T) {
			require.Equal(t, id, frames.NewMethod(id).ID())
			for range 20 {
				m := frames.NewMethod(id)
				fill(t, rng, m)
				args := m.AppendArgs(nil)
				got := frames.NewMethod(id)
				require.NoError(t, got.Decode(args))
				require.Equal(t, m, got)
				require.Equal(t, args, got.AppendArgs(nil))
			}
			// Decode must overwrite all fields of a struct used before.
			used := frames.NewMethod(id)
			fill(t, rng, used)
			fresh := frames.NewMethod(id)
			require.NoError(t, used.Decode(fresh.AppendArgs(nil)))
			require.Equal(t, fresh, used)
		})
	}
}

func TestEveryMethodRefusesWrongLengths(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, id := range frames.Methods() {
		m := frames.NewMethod(id)
		fill(t, rng, m)
		args := m.AppendArgs(nil)
		for n := range args {
			err := frames.NewMethod(id).Decode(args[:n])
			requireCode(t, frames.SyntaxError, err)
		}
		err := frames.NewMethod(id).Decode(append(args, 0))
		requireCode(t, frames.SyntaxError, err)
		require.ErrorContains(t, err, id.String())
		var e *frames.Exception
		require.ErrorAs(t, err, &e)
		require.Equal(t, id, e.Method)
	}
}

func TestLyingLengthsAllocateNothingLarge(t *testing.T) {
	// A table that claims 4 GiB in a frame of 25 octets.
	args := unhex(t, "0000 0171 00 FFFFFFFF 00000000")
	var m frames.QueueDeclare
	requireCode(t, frames.SyntaxError, m.Decode(args))
	require.Nil(t, m.Arguments)
}

// Octets written down by hand from section 4 and the method tables of the specification.
func TestMethodsOnTheWire(t *testing.T) {
	tests := []struct {
		m    frames.Method
		want string
	}{
		{&frames.ConnectionTune{ChannelMax: 2047, FrameMax: 131072, Heartbeat: 60}, "01 0000 0000000C 000A001E 07FF 00020000 003C CE"},
		{&frames.QueueDeclare{Queue: "q1", Durable: true, AutoDelete: true, NoWait: true}, "01 0000 0000000E 0032000A 0000 027131 1A 00000000 CE"},
		{&frames.QueueDeclare{Passive: true, Exclusive: true, Arguments: frames.AppendBool(nil, "a", true)}, "01 0000 00000010 0032000A 0000 00 05 00000004 01617401 CE"},
		{&frames.BasicPublish{Exchange: "x", RoutingKey: "rk", Mandatory: true}, "01 0000 0000000C 003C0028 0000 0178 02726B 01 CE"},
		{&frames.BasicDeliver{ConsumerTag: "c", DeliveryTag: 258, Redelivered: true, Exchange: "e", RoutingKey: ""}, "01 0000 00000012 003C003C 0163 0000000000000102 01 0165 00 CE"},
		{&frames.BasicNack{DeliveryTag: 1, Requeue: true}, "01 0000 0000000D 003C0078 0000000000000001 02 CE"},
		{&frames.ChannelOpenOk{}, "01 0000 00000008 0014000B 00000000 CE"},
		{&frames.ExchangeUnbindOk{}, "01 0000 00000004 00280033 CE"},
		{&frames.ConnectionUpdateSecret{NewSecret: []byte("s"), Reason: "r"}, "01 0000 0000000B 000A0046 00000001 73 0172 CE"},
	}
	for _, tt := range tests {
		want := unhex(t, tt.want)
		require.Equal(t, hex.EncodeToString(want), hex.EncodeToString(frames.AppendMethod(nil, 0, tt.m)), "%s", tt.m.ID())
		f, err := frames.Next(want, 0)
		require.NoError(t, err, "%s", tt.m.ID())
		require.Equal(t, tt.m.ID(), f.Method())
		got := frames.NewMethod(f.Method())
		require.NoError(t, got.Decode(f.Args()))
		require.Equal(t, tt.m, got)
	}
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	require.NoError(t, err)
	return b
}

func TestUnusedBitsAreIgnored(t *testing.T) {
	var m frames.BasicAck
	require.NoError(t, m.Decode([]byte{0, 0, 0, 0, 0, 0, 0, 1, 0xFE}))
	require.Equal(t, frames.BasicAck{DeliveryTag: 1}, m)
}

func TestStringsAreCopiedTablesBorrowed(t *testing.T) {
	in := frames.QueueDeclare{Queue: "queue", Arguments: frames.AppendString(nil, "k", "v")}
	args := in.AppendArgs(nil)
	var out frames.QueueDeclare
	require.NoError(t, out.Decode(args))
	clear(args)
	require.Equal(t, "queue", out.Queue)
	require.Equal(t, frames.Table(make([]byte, len(in.Arguments))), out.Arguments)
	require.Equal(t, len(out.Arguments), cap(out.Arguments))
}

func TestLongStringsAreCut(t *testing.T) {
	m := frames.BasicConsumeOk{ConsumerTag: strings.Repeat("é", 200)}
	var got frames.BasicConsumeOk
	require.NoError(t, got.Decode(m.AppendArgs(nil)))
	require.Equal(t, strings.Repeat("é", 127), got.ConsumerTag)
	m.ConsumerTag = strings.Repeat("\x80", 300) // no UTF-8: cut where it is
	require.NoError(t, got.Decode(m.AppendArgs(nil)))
	require.Equal(t, strings.Repeat("\x80", 255), got.ConsumerTag)
}

func TestMethodIDs(t *testing.T) {
	ids := frames.Methods()
	require.Len(t, ids, 66)
	seen := map[string]bool{}
	for _, id := range ids {
		require.True(t, id.Known())
		require.False(t, seen[id.String()], "%s twice", id)
		seen[id.String()] = true
		require.Equal(t, id, frames.MethodID(id.Class())<<16|frames.MethodID(id.Method()))
		require.Equal(t, len(id.Reply()) > 0, id.Synchronous())
		require.True(t, id.FromClient() || id.FromServer())
		for _, r := range id.Reply() {
			require.Equal(t, id.Class(), r.Class())
			require.True(t, r.FromServer() || id.FromServer(), "%s answers %s", r, id)
		}
	}
	ids[0] = 0
	require.NotZero(t, frames.Methods()[0], "Methods returns a copy")
}

func TestMethodIDFacts(t *testing.T) {
	require.Equal(t, frames.MethodID(50<<16|10), frames.QueueDeclareID)
	require.Equal(t, "basic.recover-async", frames.BasicRecoverAsyncID.String())
	require.Equal(t, []frames.MethodID{frames.BasicGetOkID, frames.BasicGetEmptyID}, frames.BasicGetID.Reply())
	require.Equal(t, []frames.MethodID{frames.ConfirmSelectOkID}, frames.ConfirmSelectID.Reply())
	require.False(t, frames.BasicGetOkID.Synchronous())
	require.True(t, frames.BasicCancelID.FromServer())
	require.False(t, frames.BasicPublishID.FromServer())
	require.False(t, frames.QueueDeclareOkID.FromClient())
	var content []frames.MethodID
	for _, id := range frames.Methods() {
		if id.HasContent() {
			content = append(content, id)
		}
	}
	require.Equal(t, []frames.MethodID{frames.BasicPublishID, frames.BasicReturnID, frames.BasicDeliverID, frames.BasicGetOkID}, content)
}

func TestUnknownMethods(t *testing.T) {
	for _, id := range []frames.MethodID{0, 77<<16 | 1, 60<<16 | 121, 60<<16 | 130, 91<<16 | 10, 0xFFFFFFFF, 60 << 16} {
		require.False(t, id.Known())
		require.Nil(t, frames.NewMethod(id))
		require.Nil(t, id.Reply())
		require.False(t, id.Synchronous() || id.HasContent())
		require.True(t, id.FromClient() && id.FromServer())
	}
	require.Equal(t, "class 77 method 1", frames.MethodID(77<<16|1).String())
}

func TestAppendMethodKeepsWhatIsThere(t *testing.T) {
	dst := []byte("before")
	out := frames.AppendMethod(dst, 3, &frames.ChannelFlow{Active: true})
	require.Equal(t, "before", string(out[:6]))
	f, err := frames.Next(out[6:], 0)
	require.NoError(t, err)
	require.Len(t, out, 6+len(f))
	require.Equal(t, []byte{1}, f.Args())
}
