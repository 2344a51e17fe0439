//go:build race

package coordination

// The race detector makes everything several times slower.
const simSeedsDefault = 100
