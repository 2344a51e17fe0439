//go:build race

package router_test

// The race detector makes everything several times slower, and finds nothing where only one goroutine runs: "make test" plays
// as many sessions as norace_test.go says without it.
const checks = "100"
