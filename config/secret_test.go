package config

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

func TestSecretIsMasked(t *testing.T) {
	c := Default()
	c.Upstream.Control.Password = "hunter2"
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		require.NotContains(t, fmt.Sprintf(verb, c.Upstream.Control), "hunter2", verb)
		require.NotContains(t, fmt.Sprintf(verb, &c.Upstream), "hunter2", verb)
		require.Equal(t, mask, fmt.Sprintf(verb, c.Upstream.Control.Password), verb)
	}
	require.Equal(t, mask, c.Upstream.Control.Password.String())
	asJSON, err := json.Marshal(c)
	require.NoError(t, err)
	require.NotContains(t, string(asJSON), "hunter2")
	require.Contains(t, string(asJSON), mask)
	asYAML, err := yaml.Marshal(c.Upstream)
	require.NoError(t, err)
	require.NotContains(t, string(asYAML), "hunter2")
	require.Equal(t, "hunter2", string(c.Upstream.Control.Password))
}
