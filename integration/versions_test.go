package integration

import "testing"

// onVersions runs a test against each release of RabbitMQ that the rig can start, at the same time: the system's own,
// which is version "", and those that integration/scripts/install-rabbitmq.sh provides. The test starts its node with
// that version; a release that is not installed fails it. Only the named ones are used where there are any.
func onVersions(t *testing.T, test func(t *testing.T, version string), only ...string) {
	t.Parallel()
	if len(only) == 0 {
		only = []string{"", "4.0", "4.3"}
	}
	for _, version := range only {
		name := version
		if name == "" {
			name = "own"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, version)
		})
	}
}
