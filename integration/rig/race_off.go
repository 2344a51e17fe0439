//go:build !race

package rig

// underRace: a test built with -race builds the proxy with it too.
const underRace = false
