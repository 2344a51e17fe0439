package integration

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// The client matrix: unmodified libraries go through one session (clients/NAME) directly, through the proxy, and on a
// sharded name, on each release of RabbitMQ. What they print has to be the same everywhere. docs/clients.md is the result.

// matrixSteps are what a session does, each once. It prints a line for each, "ok STEP: DETAILS" or "n/a STEP: REASON", and
// ends with an error at the first thing that is wrong.
var matrixSteps = []string{"declare", "confirm", "consume", "ack", "nack", "get", "rpc", "error", "reconnect"}

// matrixClient is a library and how its session is started.
type matrixClient struct {
	name     string
	language string
	command  func(t *testing.T, m *matrix) []string // without the arguments
}

var matrixClients = []matrixClient{
	{"amqp091-go", "Go", goSession},
	{"pika", "Python", interpreted("/usr/bin/python3", "pika/session.py")},
	{"py-amqp", "Python", interpreted("/usr/bin/python3", "py-amqp/session.py")},
	{"kombu", "Python", interpreted("/usr/bin/python3", "kombu/session.py")},
	{"celery", "Python", interpreted("/usr/bin/python3", "celery/session.py")},
	{"amqplib", "Node", scripted("amqplib/session.js")},
	{"rabbitmq-client", "Node", scripted("rabbitmq-client/session.js")},
	{"bunny", "Ruby", interpreted("ruby", "bunny/session.rb")},
	{"php-amqplib", "PHP", interpreted("php", "php-amqplib/session.php")},
	{"php-amqp", "PHP", interpreted("php", "php-amqp/session.php")},
	{"amqp-client", "Java", javaSession},
	{"librabbitmq", "C", cSession},
	{"amqp-tools", "shell", interpreted("bash", "amqp-tools/session.sh")},
	{"AnyEvent::RabbitMQ", "Perl", interpreted("perl", "perl/session.pl")},
}

// user is the client's user and part of the names that it uses.
func (c matrixClient) user() string { return strings.ToLower(strings.ReplaceAll(c.name, "::", "-")) }

func (c matrixClient) queue() string { return "images-" + c.user() }

// A session runs a whole interpreter with a library: more than a few at a time only wait for each other.
const matrixSessions = 2

// matrix is one run of TestClients.
type matrix struct {
	dir   string        // of what is compiled
	slots chan struct{} // taken by running sessions
	built map[string]func() (string, error)

	mu      sync.Mutex
	results map[string]matrixResult // by client
	passed  map[[2]string][]way     // by client and release
}

// matrixResult is what a session said, the same everywhere.
type matrixResult struct {
	version string
	steps   map[string]string // "" for a step that went well, otherwise why there is none
}

func TestClients(t *testing.T) {
	m := &matrix{
		dir: t.TempDir(), slots: make(chan struct{}, matrixSessions),
		results: map[string]matrixResult{}, passed: map[[2]string][]way{},
	}
	m.build()
	t.Cleanup(func() { m.requireTable(t) })
	onVersions(t, func(t *testing.T, version string) {
		b := startMatrix(t, version)
		t.Run("clients", func(t *testing.T) { // ends when they all have: the broker is stopped after that
			for _, c := range matrixClients {
				t.Run(c.name, func(t *testing.T) {
					t.Parallel()
					m.play(t, b, c)
				})
			}
		})
	})
}

// play runs one client's session every way, and requires it to say the same.
func (m *matrix) play(t *testing.T, b *matrixBroker, c matrixClient) {
	command := c.command(t, m)
	var want string
	for _, w := range b.ways {
		t.Run(matrixNames[w], func(t *testing.T) {
			said := m.session(t, b, c, w, command)
			result, text := matrixSaid(t, w, said)
			if w == direct {
				want = text
			}
			if want != "" { // "": -run picked out this way alone
				requireSame(t, want, text)
			}
			m.mu.Lock()
			defer m.mu.Unlock()
			m.results[c.name] = result
			key := [2]string{c.name, b.version}
			m.passed[key] = append(m.passed[key], w)
		})
	}
}

// matrixSaid takes apart what a session printed: every step once, and what was said of them, without what differs by the
// way the session went.
func matrixSaid(t *testing.T, w way, said string) (matrixResult, string) {
	t.Helper()
	r := matrixResult{steps: map[string]string{}}
	var lines []string
	for line := range strings.Lines(said) {
		kind, rest, _ := strings.Cut(strings.TrimRight(line, "\n"), " ")
		step, details, _ := strings.Cut(rest, ": ")
		switch {
		case kind == "version":
			r.version = rest
			continue
		case kind == "wait":
			continue
		case kind == "ok":
			details, lines = "", append(lines, line)
		case kind == "n/a" && details != "":
			lines = append(lines, line)
		default:
			require.Fail(t, "not a line of a session", "%q in\n%s", line, said)
		}
		require.Contains(t, matrixSteps, step)
		require.NotContains(t, r.steps, step, "made twice")
		r.steps[step] = details
	}
	require.Len(t, r.steps, len(matrixSteps), "a session of all steps:\n%s", said)
	require.NotEmpty(t, r.version)
	return r, strings.ReplaceAll(strings.Join(lines, ""), "vhost '"+matrixVhosts[w]+"'", "vhost 'V'")
}

func interpreted(interpreter, program string) func(*testing.T, *matrix) []string {
	return func(*testing.T, *matrix) []string { return []string{interpreter, filepath.Join("clients", program)} }
}

// scripted starts a session in Node, with the packages of clients/node.
func scripted(program string) func(*testing.T, *matrix) []string {
	return func(t *testing.T, _ *matrix) []string {
		out, err := nodeModules()
		require.NoError(t, err, "packages are needed: integration/scripts/install-deps.sh clients\n%s", out)
		modules, err := filepath.Abs(filepath.Join("clients", "node", "node_modules"))
		require.NoError(t, err)
		return []string{"env", "NODE_PATH=" + modules, "node", filepath.Join("clients", program)}
	}
}

// build says how to compile what has to be, which is done once, when it is first needed.
func (m *matrix) build() {
	compiler := os.Getenv("CC")
	if compiler == "" {
		compiler = "gcc"
	}
	m.built = map[string]func() (string, error){}
	for name, command := range map[string][]string{
		"go":   {"go", "build", "-o", filepath.Join(m.dir, "go"), "./clients/amqp091-go"},
		"c":    {compiler, "-O1", "-o", filepath.Join(m.dir, "c"), "clients/librabbitmq/session.c", "-lrabbitmq"},
		"java": {"javac", "-d", filepath.Join(m.dir, "java"), "-cp", javaPath("amqp-client"), "clients/java/Session.java"},
	} {
		m.built[name] = sync.OnceValues(func() (string, error) {
			out, err := exec.CommandContext(context.Background(), command[0], command[1:]...).CombinedOutput()
			return string(out), err
		})
	}
}

// compiled returns where a program is once it has been compiled.
func (m *matrix) compiled(t *testing.T, name string) string {
	t.Helper()
	out, err := m.built[name]()
	require.NoError(t, err, "it does not compile; what it needs: integration/scripts/install-deps.sh clients\n%s", out)
	return filepath.Join(m.dir, name)
}

func goSession(t *testing.T, m *matrix) []string { return []string{m.compiled(t, "go")} }

func cSession(t *testing.T, m *matrix) []string { return []string{m.compiled(t, "c")} }

// javaSession keeps the virtual machine from compiling well what runs for a second.
func javaSession(t *testing.T, m *matrix) []string {
	classes := []string{m.compiled(t, "java"), javaPath("amqp-client"), javaPath("slf4j-api"), javaPath("slf4j-nop")}
	return []string{"java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", strings.Join(classes, string(os.PathListSeparator)), "Session"}
}

// javaPath is where Debian has a library.
func javaPath(library string) string { return fmt.Sprintf("/usr/share/java/%s.jar", library) }

// all says whether every client went every way on a release.
func (m *matrix) all(version string) bool {
	return !slices.ContainsFunc(matrixClients, func(c matrixClient) bool {
		return len(m.passed[[2]string{c.name, version}]) != len(matrixWays(version))
	})
}
