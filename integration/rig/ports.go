package rig

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// Ports come from below the range the kernel hands out by itself (32768 and up on Linux): a port that is free when it
// is chosen stays free until the program that gets it listens, unless another rig picks the same one, which a retry
// with other ports solves (see StartNode).
const (
	firstPort = 10240
	lastPort  = 32000
)

var ports struct {
	sync.Mutex
	given map[int]bool // never given twice by this process: a node that was killed wants its ports back
}

// FreePort returns a loopback port that nobody listens on and that this process has not handed out before.
func FreePort() (int, error) {
	ports.Lock()
	defer ports.Unlock()
	if ports.given == nil {
		ports.given = map[int]bool{}
	}
	for range 1000 {
		port := firstPort + rand.IntN(lastPort-firstPort)
		if ports.given[port] {
			continue
		}
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		if err := l.Close(); err != nil {
			return 0, fmt.Errorf("free port: %w", err)
		}
		ports.given[port] = true
		return port, nil
	}
	return 0, fmt.Errorf("free port: none found between %d and %d", firstPort, lastPort)
}
