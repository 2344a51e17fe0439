package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
)

// release is set by the build: -ldflags "-X main.release=v1.2.3".
var release string

// version returns the version of this build: what the build set, else the
// module's version, as "go install ...@version" records it.
func version() string {
	var module string
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "(devel)" {
		module = info.Main.Version
	}
	return cmp.Or(release, module, "dev")
}

func versionLine() string {
	return fmt.Sprintf("shardmq %s %s %s/%s", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// versionCmd is "shardmq version".
type versionCmd struct{}

// Run prints the version on one line.
func (versionCmd) Run(a *app) error {
	_, err := fmt.Fprintln(a.stdout, versionLine())
	return err
}
