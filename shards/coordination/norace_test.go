//go:build !race

package coordination

const simSeedsDefault = 1000
