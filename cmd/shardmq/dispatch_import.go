package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/shardmq/shardmq/config"
	"github.com/shardmq/shardmq/dispatch/jobxml"
)

// dispatchImportCmd is "shardmq dispatch import".
type dispatchImportCmd struct {
	File      string `arg:"" help:"The job.xml to read."`
	Output    string `short:"o" placeholder:"FILE" help:"Write to this file, which may not be there yet. (default: standard output)"`
	Force     bool   `help:"Replace the output file if it is there."`
	Passwords bool   `help:"Write passwords as they are. (default: variables such as $${MAIL_MQ_PASSWORD}, to be set in the environment)"`
}

// Run writes the configuration, and says what is not carried over as it is. With
// a problem in the file nothing is written.
func (c *dispatchImportCmd) Run(a *app) error {
	data, err := readJobXML(c.File)
	if err != nil {
		return config.Problems{{File: c.File, Text: err.Error()}}
	}
	imported, err := jobxml.Read(data)
	if err != nil {
		return c.problems(err)
	}
	text, err := imported.YAML(jobxml.Options{From: c.File, Passwords: c.Passwords})
	if err != nil {
		return err
	}
	if err := c.check(text); err != nil {
		return err
	}
	if err := c.write(a, text); err != nil {
		return err
	}
	for _, n := range imported.Notes {
		fmt.Fprintf(a.stderr, "%s (note)\n", config.Problem{File: c.File, Line: n.Line, Path: n.Path, Text: n.Text})
	}
	fmt.Fprintf(a.stderr, "%s: imported %s with %s\n", c.File, count(imported.Jobs(), "job", "jobs"), count(imported.Executors(), "executor", "executors"))
	if !c.Passwords {
		fmt.Fprintf(a.stderr, "passwords are not written: set %s in the environment, or use --passwords\n", strings.Join(imported.Variables(), ", "))
	}
	return nil
}

// readJobXML reads a file or a pipe, whose size nobody knows beforehand.
func readJobXML(name string) ([]byte, error) {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errors.New("no such file; check the path")
	}
	var data []byte
	if err == nil {
		defer f.Close()
		data, err = io.ReadAll(io.LimitReader(f, jobxml.MaxSize+1))
	}
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err // the path is named already
	}
	if err != nil {
		return nil, fmt.Errorf("cannot be read (%w); check its path and permissions", err)
	}
	return data, nil
}

// problems are those of a job.xml, in the form of all others.
func (c *dispatchImportCmd) problems(err error) error {
	found, ok := errors.AsType[jobxml.Problems](err)
	if !ok {
		return err
	}
	var out config.Problems
	for _, p := range found {
		out = append(out, config.Problem{File: c.File, Line: p.Line, Path: p.Path, Text: p.Text})
	}
	return out
}

// check reads what is to be written as it will be read.
func (c *dispatchImportCmd) check(text []byte) error {
	set := func(string) (string, bool) { return "password", true }
	if _, err := config.Parse("the configuration", text, set); err != nil {
		return usagef("%s: cannot be imported, for what would be written has problems; correct them there:\n%w", c.File, err)
	}
	if len(text) > jobxml.MaxSize {
		return usagef("%s: cannot be imported, for a configuration has at most %d bytes; split it", c.File, jobxml.MaxSize)
	}
	return nil
}

// write writes what may have passwords in it, for the owner only.
func (c *dispatchImportCmd) write(a *app, text []byte) error {
	if c.Output == "" {
		if _, err := a.stdout.Write(text); err != nil {
			return fmt.Errorf("write the configuration: %w", err)
		}
		return nil
	}
	how := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if c.Force {
		how = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	}
	f, err := os.OpenFile(c.Output, how, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return usagef("--output: %s is there already; choose another name, or use --force to replace it", c.Output)
	}
	if err == nil {
		_, err = f.Write(text)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return usagef("--output: %w; check the path and its permissions", err)
	}
	return nil
}
