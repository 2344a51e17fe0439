package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Clients in other languages, as programs of their own.

// clientPatience bounds one program: it is there to kill one that hangs.
const clientPatience = 2 * time.Minute

// python runs a program of clients/python with Debian's Python, where pika is, and returns what it printed.
func python(t *testing.T, program string, args ...string) string {
	t.Helper()
	const remedy = "pika is needed: integration/scripts/install-deps.sh clients"
	return client(t, remedy, "/usr/bin/python3", append([]string{filepath.Join("clients", "python", program)}, args...)...)
}

// pika runs a command of acceptance.py and decodes its one line of JSON into answer.
func pika(t *testing.T, answer any, args ...string) {
	t.Helper()
	out := python(t, "acceptance.py", args...)
	require.NoError(t, json.Unmarshal([]byte(out), answer), "output of acceptance.py %q:\n%s", args, out)
}

// nodeModules installs amqplib where it is missing, once.
var nodeModules = sync.OnceValues(func() (string, error) {
	out, err := exec.Command(filepath.Join("scripts", "install-node-modules.sh")).CombinedOutput()
	return string(out), err
})

// node runs a program of clients/node and returns what it printed.
func node(t *testing.T, program string, args ...string) string {
	t.Helper()
	out, err := nodeModules()
	require.NoError(t, err, "amqplib is needed: integration/scripts/install-deps.sh clients\n%s", out)
	const remedy = "Node is needed: integration/scripts/install-deps.sh clients"
	return client(t, remedy, "node", append([]string{filepath.Join("clients", "node", program)}, args...)...)
}

func client(t *testing.T, remedy, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), clientPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	cmd.WaitDelay = time.Second
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	require.NoError(t, err, "%s %q\n%s\nprinted:\n%s\nerrors:\n%s", name, args, remedy, out.String(), errOut.String())
	return out.String()
}
