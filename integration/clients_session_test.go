package integration

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/integration/rig"
)

// matrixVhosts have names of one length.
var matrixVhosts = map[way]string{direct: "plain-0", bare: "plain-1", sharded: "shard-2", placed: "shard-3"}

// matrixNames are what ways are called in docs/clients.md.
var matrixNames = map[way]string{direct: "direct", bare: "proxied", sharded: "sharded", placed: "placed"}

// matrixWays are the ways of a release. In the last one the policy says something that the broker's own exchanges of type
// x-modulus-hash cannot do, so that the proxy places messages; releases without such exchanges have no need of it.
func matrixWays(version string) []way {
	if version == "4.3" {
		return []way{direct, bare, sharded, placed}
	}
	return []way{direct, bare, sharded}
}

// matrixBroker is a broker of one release with a proxy, which shards in some of its vhosts.
type matrixBroker struct {
	version string
	ways    []way
	node    *rig.Node
	proxy   *rig.Proxy
	closer  string // where a line "USER VHOST" closes that user's connections
}

func startMatrix(t *testing.T, version string) *matrixBroker {
	t.Helper()
	node, err := rig.StartNode(t.Context(), rig.NodeOptions{Version: version})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, node.Stop()) })
	b := &matrixBroker{version: version, ways: matrixWays(version), node: node}
	var users, vhosts []string
	var policies strings.Builder
	for _, c := range matrixClients {
		users = append(users, fmt.Sprintf("<<%q>>", c.user()))
		for w, more := range map[way]string{sharded: "", placed: ", hash-on: message-id"} { // none has one: hashed by its routing key
			e := env{vhost: matrixVhosts[w]}
			policies.WriteString(strings.Replace(e.policy(c.queue(), 4, more), "{name: ", "{name: "+string(w)+"-", 1))
		}
	}
	for _, vhost := range matrixVhosts {
		vhosts = append(vhosts, fmt.Sprintf("<<%q>>", vhost))
	}
	port, err := node.Ctl(t.Context(), "eval", fmt.Sprintf(matrixSetup, strings.Join(users, ", "), strings.Join(vhosts, ", ")))
	require.NoError(t, err)
	b.closer = net.JoinHostPort("127.0.0.1", strings.TrimSpace(port))
	e := &env{t: t, broker: node, vhost: "/", url: node.URL + "/%2F"}
	b.proxy = e.proxyWith(policies.String())
	return b
}

// matrixSetup makes users, whose passwords are "secret", and vhosts, and has the broker listen for orders to close a user's
// connections: running rabbitmqctl each time would take most of the test's time. It returns the port.
const matrixSetup = `begin
	Users = [%s], Vhosts = [%s], All = <<".*">>,
	[rabbit_auth_backend_internal:add_user(U, <<"secret">>, <<"rig">>) || U <- Users],
	[begin
		ok = rabbit_vhost:add(V, <<"rig">>),
		[ok = rabbit_auth_backend_internal:set_permissions(U, V, All, All, All, <<"rig">>) || U <- [<<"guest">> | Users]]
	end || V <- Vhosts],
	Self = self(),
	Theirs = fun(P, User, Vhost) -> (catch rabbit_networking:connection_info(P, [user, vhost])) =:= [{user, User}, {vhost, Vhost}] end,
	spawn(fun() ->
		{ok, L} = gen_tcp:listen(0, [{ip, {127, 0, 0, 1}}, {active, false}, {packet, line}, binary]),
		{ok, Port} = inet:port(L),
		Self ! {port, Port},
		(fun Loop() ->
			{ok, S} = gen_tcp:accept(L),
			{ok, Line} = gen_tcp:recv(S, 0),
			[User, Vhost | _] = binary:split(Line, [<<" ">>, <<"\n">>], [global]),
			Closed = [catch rabbit_networking:close_connection(P, <<"asked by a test">>)
				|| P <- rabbit_networking:connections(), Theirs(P, User, Vhost)],
			gen_tcp:send(S, integer_to_list(length(Closed))),
			gen_tcp:close(S),
			Loop()
		end)()
	end),
	receive {port, P} -> P end
end.`

// closeAll has the broker close a client's connections in the way's vhost.
func (b *matrixBroker) closeAll(c matrixClient, w way) error {
	conn, err := net.Dial("tcp", b.closer)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if _, err := fmt.Fprintf(conn, "%s %s\n", c.user(), matrixVhosts[w]); err != nil {
		return err
	}
	closed, err := io.ReadAll(conn)
	if err == nil && (len(closed) == 0 || string(closed) == "0") {
		err = fmt.Errorf("the broker has no connection of %s", c.user())
	}
	return err
}

func (b *matrixBroker) url(t *testing.T, c matrixClient, w way) string {
	address := b.proxy.Addr
	if w == direct {
		address = b.node.Addr
	}
	return withVhost(t, withUser(t, "amqp://"+address, c.user(), "secret"), matrixVhosts[w])
}

// session runs a client's session one way and returns what it printed. When the session waits for it, its connections are closed.
func (m *matrix) session(t *testing.T, b *matrixBroker, c matrixClient, w way, command []string) string {
	t.Helper()
	kind := "fanout"
	if w == sharded || w == placed {
		kind = modulusHash
	}
	said := m.run(t, command, []string{b.url(t, c, w), c.queue(), c.queue(), kind}, func(what string) {
		if err := b.closeAll(c, w); err != nil || what != "reconnect" {
			t.Errorf("waits for %s; close the connections of %s: %v", what, c.name, err)
		}
	})
	b.requireQueues(t, c, w)
	return said
}

// run runs a program to its end and returns what it printed. When it says "wait WHAT", that is done for it and it gets a line to read.
func (m *matrix) run(t *testing.T, command, args []string, do func(what string)) string {
	t.Helper()
	m.slots <- struct{}{}
	defer func() { <-m.slots }()
	ctx, cancel := context.WithTimeout(t.Context(), clientPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], slices.Concat(command[1:], args)...)
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	cmd.WaitDelay = time.Second
	var errOut, said bytes.Buffer
	cmd.Stderr = &errOut
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start(), "it is needed: integration/scripts/install-deps.sh clients")
	for lines := bufio.NewScanner(out); lines.Scan(); {
		fmt.Fprintln(&said, lines.Text())
		if what, waits := strings.CutPrefix(lines.Text(), "wait "); waits {
			do(what)
			_, _ = io.WriteString(in, "done\n") // it may have ended
		}
	}
	require.NoError(t, cmd.Wait(), "%q\nprinted:\n%s\nerrors:\n%s", cmd.Args, said.String(), lastLines(errOut.String(), 30))
	return said.String()
}

// requireQueues requires the client's queue to be what the way says: shards, and no queue of that name, or that queue alone.
func (b *matrixBroker) requireQueues(t *testing.T, c matrixClient, w way) {
	t.Helper()
	out, err := b.node.Ctl(t.Context(), "eval", fmt.Sprintf(`begin
		Plain = <<%q>>, Shard = <<"sharding: ", Plain/binary, " - ">>,
		Names = [element(4, amqqueue:get_name(Q)) || Q <- rabbit_amqqueue:list(<<%q>>)],
		[binary_to_list(N) || N <- Names, N =:= Plain orelse string:prefix(N, Shard) =/= nomatch] end.`, c.queue(), matrixVhosts[w]))
	require.NoError(t, err)
	e := env{broker: b.node}
	want := []string{c.queue()}
	if w == sharded || w == placed {
		want = e.shards(c.queue(), 4)
	}
	for _, name := range want {
		require.Contains(t, out, `"`+name+`"`)
	}
	require.Equal(t, 2*len(want), strings.Count(out, `"`), "queues: %s", out)
}
