package rig

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
)

// command is the package of the binary.
const command = "github.com/shardmq/shardmq/cmd/shardmq"

// build remembers the binary of this process. A failure is not remembered.
var build struct {
	sync.Mutex
	binary string
}

// BuildProxy builds the shardmq binary into the workspace, once per process, and returns its path. A test built with
// the race detector gets a binary with it. SHARDMQ_BINARY names a binary to use instead. The working directory has to
// be inside the repository.
func BuildProxy(ctx context.Context) (string, error) {
	if given := os.Getenv("SHARDMQ_BINARY"); given != "" {
		path, err := filepath.Abs(given)
		if err == nil {
			_, err = os.Stat(path)
		}
		if err != nil {
			return "", fmt.Errorf("SHARDMQ_BINARY: %w", err)
		}
		return path, nil
	}
	build.Lock()
	defer build.Unlock()
	if build.binary != "" {
		return build.binary, nil
	}
	dir, err := space.folder("bin")
	if err != nil {
		return "", err
	}
	binary := filepath.Join(dir, "shardmq")
	args := []string{"build", "-o", binary}
	if underRace {
		args = append(args, "-race")
	}
	out, err := exec.CommandContext(ctx, "go", append(args, command)...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", command, err, out)
	}
	build.binary = binary
	return binary, nil
}

func forgetBuild() {
	build.Lock()
	defer build.Unlock()
	build.binary = ""
}
