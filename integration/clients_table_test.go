package integration

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// writeTable has TestClients write docs/clients.md instead of comparing with it: make clients-table.
var writeTable = flag.Bool("clients-table", false, "write docs/clients.md from the run of TestClients")

// matrixReleases are the names of the releases that onVersions runs on.
var matrixReleases = []struct{ version, name string }{{"", "3.10"}, {"4.0", "4.0"}, {"4.3", "4.3"}}

// requireTable compares docs/clients.md with a run of all clients, without the versions of libraries, or writes it.
func (m *matrix) requireTable(t *testing.T) {
	for _, r := range matrixReleases {
		if !m.all(r.version) {
			return // a failure is reported already, or -run picked out some
		}
	}
	file := filepath.Join("..", "docs", "clients.md")
	text := m.table()
	if *writeTable {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		return
	}
	committed, err := os.ReadFile(file)
	require.NoError(t, err)
	if want, got := withoutVersions(string(committed)), withoutVersions(text); want != got {
		t.Errorf("docs/clients.md is not what this run shows; write it anew with make clients-table:\n%s", text)
	}
}

// withoutVersions is the table without its column of libraries' versions.
func withoutVersions(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		if cells := strings.Split(line, "|"); len(cells) > 4 {
			line = strings.Join(slices.Delete(cells, 3, 4), "|")
		}
		out.WriteString(line)
	}
	return out.String()
}

const tableHead = `# Clients

Written by ` + "`make clients-table`" + ` from a run of ` + "`TestClients`" + `, which fails when this is not what it sees. Each library, as it is packaged, goes through the same session
(` + "`integration/clients`" + `): declares an exchange, a queue and a binding; publishes with confirms; consumes with a prefetch of 10, acknowledges, puts a message back and
drops it (py-amqp, kombu, Celery and AnyEvent::RabbitMQ by ` + "`basic.reject`" + `, which is what they have); gets until there is nothing; asks and answers; is refused a passive declare (404) and goes on;
has its connection closed by the broker (320), connects again and goes on.

What a session sees, texts of errors included, is the same in each of these ways:

- *direct*: no proxy;
- *proxied*: through shardmq, on an ordinary exchange and queue;
- *sharded*: through shardmq, on an exchange of type ` + "`x-modulus-hash`" + ` with 4 shards and its pseudo-queue. On 4.3 the broker places the messages, and for *placed* shardmq does.

`

// table is the text of docs/clients.md.
func (m *matrix) table() string {
	var rows, notes strings.Builder
	rows.WriteString("| client | language | version |")
	for _, step := range matrixSteps {
		rows.WriteString(" " + step + " |")
	}
	for _, r := range matrixReleases {
		rows.WriteString(" RabbitMQ " + r.name + " |")
	}
	rows.WriteString("\n" + strings.Repeat("|---", 3+len(matrixSteps)+len(matrixReleases)) + "|\n")
	for _, c := range matrixClients {
		result := m.results[c.name]
		fmt.Fprintf(&rows, "| %s | %s | %s |", c.name, c.language, result.version)
		for _, step := range matrixSteps {
			if why := result.steps[step]; why != "" {
				rows.WriteString(" n/a |")
				fmt.Fprintf(&notes, "- %s, %s: %s.\n", c.name, step, why)
			} else {
				rows.WriteString(" yes |")
			}
		}
		for _, r := range matrixReleases {
			var ways []string
			for _, w := range m.passed[[2]string{c.name, r.version}] {
				ways = append(ways, matrixNames[w])
			}
			rows.WriteString(" " + strings.Join(ways, ", ") + " |")
		}
		rows.WriteString("\n")
	}
	return tableHead + rows.String() + "\nWhat is not applicable:\n\n" + notes.String() + afterRestart()
}

// afterRestart is what the table's document says of TestClientsAfterRestart.
func afterRestart() string {
	var names [2][]string
	for _, c := range matrixClients {
		if alone, can := restartClients[c.name]; can {
			i := map[bool]int{true: 0, false: 1}[alone]
			names[i] = append(names[i], c.name)
		}
	}
	return fmt.Sprintf(`
## When the proxy ends

`+"`TestClientsAfterRestart`"+` ends the proxy under a client (SIGTERM), publishes, and starts another proxy at the same address. The client gets 320, as from a broker that shuts down, comes back and gets
what was published meanwhile, from a queue and from a pseudo-queue. %s do so by themselves; with %s that is the program's to do, and the session does it.
`, strings.Join(names[0], ", "), strings.Join(names[1], ", "))
}
