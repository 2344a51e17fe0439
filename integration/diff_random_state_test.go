package integration

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// randDump is an Erlang expression for all that the sessions have made in some vhosts, but for what is sharded somewhere: one thing a line. While
// connections are still ending it is "busy": there are consumers, or messages with them.
const randDump = `begin
	Mine = fun({resource, _, _, N}) -> lists:prefix("random-", binary_to_list(N)) orelse lists:prefix("amq.gen-", binary_to_list(N)) end,
	Name = fun({resource, _, K, N}) -> {K, case lists:prefix("amq.gen-", binary_to_list(N)) of true -> generated; false -> N end} end,
	Queue = fun(Q) ->
		I = rabbit_amqqueue:info(Q, [name, durable, auto_delete, arguments, messages_ready, messages_unacknowledged, consumers, type]),
		{0, 0} = {proplists:get_value(consumers, I), proplists:get_value(messages_unacknowledged, I)},
		{Name(proplists:get_value(name, I)), tl(I)} end,
	Queues = fun(V) -> [Queue(Q) || Q <- rabbit_amqqueue:list(V), Mine(amqqueue:get_name(Q))] end,
	Exchanges = fun(V) -> [{Name(proplists:get_value(name, X)), tl(X)} || X <- rabbit_exchange:info_all(V, [name, type, durable, auto_delete, internal, arguments]),
		Mine(proplists:get_value(name, X))] end,
	Bindings = fun(V) -> [{Name(S), Name(D), case Mine(S) of true -> K; false -> default end, A} || {binding, S, K, D, A} <- rabbit_binding:list(V), Mine(D)] end,
	try lists:flatten([io_lib:format("~s ~tw~n", [V, L]) || V <- [%s], L <- lists:sort(Queues(V) ++ Exchanges(V) ++ Bindings(V))])
	catch _:_ -> "busy" end end`

// randDiffers says how the vhosts of the ways differ from the one that was used directly; "": not at all.
func (b *diffBroker) randDiffers(t *testing.T, ways []*randWay) string {
	t.Helper()
	out, err := b.node.Eval(t.Context(), fmt.Sprintf(randDump, erlangVhosts(ways)))
	require.NoError(t, err)
	held := map[way][]string{}
	for line := range strings.Lines(out) {
		for _, w := range ways {
			if rest, ok := strings.CutPrefix(line, w.way.vhost()+" "); ok {
				held[w.way] = append(held[w.way], strings.ReplaceAll(rest, w.way.vhost(), "V"))
			}
		}
	}
	if len(held[direct]) == 0 {
		return "there is nothing at all:\n" + out
	}
	for _, w := range ways[1:] {
		if only, lacks := without(held[w.way], held[direct]), without(held[direct], held[w.way]); len(only)+len(lacks) > 0 {
			return fmt.Sprintf("%s, only there:\n%s\nonly directly:\n%s", w.way, strings.Join(only, ""), strings.Join(lacks, ""))
		}
	}
	return ""
}

// without returns the lines of a that are not in b, counted.
func without(a, b []string) (rest []string) {
	count := map[string]int{}
	for _, line := range b {
		count[line]++
	}
	for _, line := range a {
		if count[line]--; count[line] < 0 {
			rest = append(rest, line)
		}
	}
	return rest
}

func erlangVhosts(ways []*randWay) string {
	var all []string
	for _, w := range ways {
		all = append(all, `<<"`+w.way.vhost()+`">>`)
	}
	return strings.Join(all, ", ")
}

// randForget removes everything that the sessions have made, but for what is sharded somewhere.
func (b *diffBroker) randForget(t *testing.T, ways []*randWay) {
	t.Helper()
	_, err := b.node.Eval(t.Context(), fmt.Sprintf(`begin
		Mine = fun(N) -> lists:prefix("random-", binary_to_list(N)) orelse lists:prefix("amq.gen-", binary_to_list(N)) end,
		[begin
			[rabbit_amqqueue:delete(Q, false, false, <<"rig">>) || Q <- rabbit_amqqueue:list(V), Mine(element(4, amqqueue:get_name(Q)))],
			[rabbit_exchange:delete(N, false, <<"rig">>) || [{name, N = {resource, _, _, B}}] <- rabbit_exchange:info_all(V, [name]), Mine(B)]
		end || V <- [%s]], ok end`, erlangVhosts(ways)))
	require.NoError(t, err)
}
