//go:build race

package coordination

// The race detector makes everything several times slower, and has nothing to find in
// a simulated world, which is one goroutine's. The numbers that decide are those of the
// run without it.
const (
	simSeedsDefault = 24
	// crashStride is every which step of a leader it dies at, restarts how often all
	// consumers are started anew during an alarm.
	crashStride = 23
	restarts    = 8
)
