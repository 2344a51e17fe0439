package integration

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/shardmq/shardmq/integration/rig"
)

// shared is the broker that all tests use, except those that stop their broker or need plugins in it.
var shared *rig.Node

func TestMain(m *testing.M) { os.Exit(run(m)) }

// run keeps the deferred clean-up out of reach of os.Exit.
func run(m *testing.M) (code int) {
	defer func() {
		if err := rig.Cleanup(); err != nil {
			fmt.Fprintln(os.Stderr, "clean-up:", err)
			code = max(code, 1)
		}
	}()
	flag.Parse()
	if err := waitTogether(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	var err error
	if shared, err = rig.Broker(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "the integration tests need a RabbitMQ:", err)
		return 1
	}
	if _, err = rig.BuildProxy(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "the integration tests need the shardmq binary:", err)
		return 1
	}
	return m.Run()
}

// waitTogether lets more tests run at a time than there are processors, unless -parallel is given: they wait for the
// broker far more than they compute.
func waitTogether() error {
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if given {
		return nil
	}
	return flag.Set("test.parallel", strconv.Itoa(max(8, runtime.GOMAXPROCS(0))))
}
