//go:build !race

package coordination

const (
	simSeedsDefault = 1000
	crashStride     = 1
	restarts        = 200
)
