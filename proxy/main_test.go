package proxy

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// TestMain: neither goroutines nor sockets are left when all tests are over.
func TestMain(m *testing.M) {
	before := sockets()
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		now := sockets()
		for try := 0; now > before && try < 100; try++ {
			time.Sleep(10 * time.Millisecond)
			now = sockets()
		}
		if code == 0 && now > before {
			fmt.Fprintf(os.Stderr, "%d sockets are left open\n", now-before)
			code = 1
		}
		os.Exit(code)
	}))
}

// sockets is how many sockets this process has.
func sockets() (n int) {
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		panic(err)
	}
	for _, f := range files {
		if to, err := os.Readlink("/proc/self/fd/" + f.Name()); err == nil && strings.HasPrefix(to, "socket:") {
			n++
		}
	}
	return n
}
