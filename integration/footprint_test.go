package integration

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/integration/rig"
)

var goroutines = regexp.MustCompile(`(?m)^go_goroutines (\d+)$`)

// footprint is what a proxy with an admin listener holds: file descriptors and goroutines.
func footprint(t *testing.T, p *rig.Proxy) (files, routines int) {
	t.Helper()
	_, text := fetch(t, p, "/metrics")
	m := goroutines.FindStringSubmatch(text)
	require.NotNil(t, m)
	routines, err := strconv.Atoi(m[1])
	require.NoError(t, err)
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.PID()))
	require.NoError(t, err)
	return len(entries), routines
}

// leavesNothing returns what waits until the proxy holds no more than it does now.
func leavesNothing(t *testing.T, p *rig.Proxy) (check func()) {
	t.Helper()
	eventually(t, "ready", func() string { // its own connections are made
		if code, text := fetch(t, p, "/readyz"); code != 200 {
			return text
		}
		return ""
	})
	files, routines := footprint(t, p)
	return func() {
		t.Helper()
		eventually(t, "that descriptors and goroutines are given back", func() string {
			if f, r := footprint(t, p); f > files || r > routines {
				return fmt.Sprintf("descriptors: %d before, %d now; goroutines: %d before, %d now", files, f, routines, r)
			}
			return ""
		})
	}
}
