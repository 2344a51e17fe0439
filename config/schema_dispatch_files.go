package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"unicode"
)

// maxSecretFile bounds the file of a secret.
const maxSecretFile = 64 << 10

// login is a user name and a password, which may be in a file.
type login struct {
	name     string
	password Secret
	file     string
}

// read completes what has been read at a place, and reports whether anything of it was given.
func (l *login) read(d *dispatching, p *parser, at place) bool {
	name, password, file := p.given(at, "username"), p.given(at, "password"), p.given(at, "password-file")
	switch {
	case password && file:
		p.faultAt(at.key("password-file"), "is given beside password; keep one of the two")
	case name != (password || file):
		p.fault(at, "has only one of username and password; give both, or neither")
	case l.file != "":
		l.password = d.secretFile(p, at.key("password-file"), &l.file)
	}
	return name || password || file
}

// file has relative paths begin at the folder of the configuration file, and remembers that the settings name them.
func (d *dispatching) file(p *parser, paths ...*string) {
	p.resolvePaths(paths...)
	for _, path := range paths {
		if *path != "" {
			d.settings.Files = append(d.settings.Files, *path)
		}
	}
}

// secretFile reads a secret from the file that the value with that path names.
func (d *dispatching) secretFile(p *parser, path string, name *string) Secret {
	if *name == "" {
		return "" // reported already
	}
	d.file(p, name)
	if !p.files {
		return ""
	}
	text, err := readSecret(*name)
	if err != nil {
		p.faultAt(path, "%s: %s", *name, err)
	}
	return Secret(text)
}

// withoutPath leaves out what a message names already.
func withoutPath(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

// readSecret returns what is in a file, without the line's end.
func readSecret(name string) (string, error) {
	if info, err := os.Stat(name); err != nil {
		return "", fmt.Errorf("cannot be read (%w); check its path and permissions", withoutPath(err))
	} else if !info.Mode().IsRegular() { // reading a pipe might never end
		return "", fmt.Errorf("is no file; name the file that holds the secret")
	}
	f, err := os.Open(name)
	if err != nil {
		return "", fmt.Errorf("cannot be read (%w); check its path and permissions", withoutPath(err))
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxSecretFile+1))
	text := strings.TrimRight(string(data), "\r\n")
	switch {
	case err != nil:
		return "", fmt.Errorf("cannot be read (%w); check its path and permissions", withoutPath(err))
	case len(data) > maxSecretFile:
		return "", fmt.Errorf("is larger than %d bytes; is it the right file?", maxSecretFile)
	case text == "":
		return "", fmt.Errorf("is empty; put the secret into it")
	case strings.ContainsFunc(text, unicode.IsControl):
		return "", fmt.Errorf("has more than one line or a control character in it; put the secret alone into it")
	}
	return text, nil
}
