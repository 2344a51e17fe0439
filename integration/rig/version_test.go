package rig

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestVersions makes a cluster of each release that install-rabbitmq.sh provides.
func TestVersions(t *testing.T) {
	for _, version := range []string{"4.0", "4.3"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			a := startTestNode(t, NodeOptions{Version: version, Plugins: []string{"rabbitmq_sharding"}})
			out, err := a.Ctl(t.Context(), "version")
			require.NoError(t, err)
			require.Contains(t, out, version[:1]+".", "4.3 stands for later ones too")
			b := startTestNode(t, NodeOptions{Version: version})
			require.NoError(t, b.Join(t.Context(), a))
			publishDurable(t, a.URL, "shared")
			requireOneMessage(t, b.URL, "shared")
			require.NoError(t, b.Kill())
			require.NoError(t, b.Restart(t.Context()))
			requireOneMessage(t, b.URL, "shared")
		})
	}
}

func TestVersionNotInstalled(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	_, err := StartNode(t.Context(), NodeOptions{Version: "4.0"})
	var missing *NotInstalledError
	require.ErrorAs(t, err, &missing)
	require.ErrorContains(t, err, "install-rabbitmq.sh 4.0")
}

func TestPluginsAtRunTime(t *testing.T) {
	n := startTestNode(t, NodeOptions{Plugins: []string{"rabbitmq_sharding"}})
	require.NoError(t, n.Plugins(t.Context(), "disable", "rabbitmq_sharding"))
	require.Error(t, dial(t, n.URL).ExchangeDeclare("x", "x-modulus-hash", true, false, false, false, nil))
	require.NoError(t, n.Plugins(t.Context(), "enable", "rabbitmq_sharding"))
	require.NoError(t, dial(t, n.URL).ExchangeDeclare("x", "x-modulus-hash", true, false, false, false, nil))
}
