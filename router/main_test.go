package router_test

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
)

var rewrite = flag.Bool("rewrite", false, "write the decisions of testdata/*.txtar anew")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
