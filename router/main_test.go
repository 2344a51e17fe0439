package router_test

import (
	"flag"
	"os"
	"testing"

	"go.uber.org/goleak"
)

var rewrite = flag.Bool("rewrite", false, "write the decisions of testdata/*.txtar anew")

func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "rapid.checks" })
	if !given { // sessions are short and cheap
		if err := flag.Set("rapid.checks", checks); err != nil {
			os.Exit(2)
		}
	}
	goleak.VerifyTestMain(m)
}
