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

// session runs a client's session and returns what it printed. When the session waits for it, its connections are closed.
func (m *matrix) session(t *testing.T, b *matrixBroker, c matrixClient, w way, command []string) string {
	t.Helper()
	m.slots <- struct{}{}
	defer func() { <-m.slots }()
	ctx, cancel := context.WithTimeout(t.Context(), clientPatience)
	defer cancel()
	kind := "fanout"
	if w == sharded || w == placed {
		kind = modulusHash
	}
	args := append(command[1:len(command):len(command)], b.url(t, c, w), c.queue(), c.queue(), kind)
	cmd := exec.CommandContext(ctx, command[0], args...)
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
		if lines.Text() != "wait reconnect" {
			continue
		}
		if err := b.closeAll(c, w); err != nil {
			t.Errorf("close the connections of %s: %v", c.name, err)
		}
		_, _ = io.WriteString(in, "closed\n") // it may have ended
	}
	require.NoError(t, cmd.Wait(), "%q\nprinted:\n%s\nerrors:\n%s", cmd.Args, said.String(), lastLines(errOut.String(), 30))
	return said.String()
}
