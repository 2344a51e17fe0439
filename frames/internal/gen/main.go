// Command gen writes the generated Go files of package frames into the current folder. It is run by "go generate ./frames".
package main

import (
	"fmt"
	"os"

	"github.com/shardmq/shardmq/frames/spec"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func run() error {
	d, err := spec.Parse(spec.Text)
	if err != nil {
		return fmt.Errorf("spec/amqp091.txt: %w", err)
	}
	files, err := render(d)
	if err != nil {
		return err
	}
	for name, text := range files {
		if err := os.WriteFile(name, text, 0o644); err != nil {
			return fmt.Errorf("write generated code: %w", err)
		}
	}
	return nil
}
