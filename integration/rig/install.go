package rig

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
)

// NotInstalledError says that a program the rig needs is not on this machine. Its text names the remedy.
type NotInstalledError struct {
	Program string // "rabbitmq-server"
	Version string // the release asked for, "" for the system's own
	Looked  string // where it was looked for
}

func (e *NotInstalledError) Error() string {
	if e.Version != "" {
		return fmt.Sprintf("%s %s is not installed (looked in %s); install it with "+
			"integration/scripts/install-rabbitmq.sh %s (Debian or Ubuntu)", e.Program, e.Version, e.Looked, e.Version)
	}
	return fmt.Sprintf("%s is not installed (looked in %s); install it with integration/scripts/install-deps.sh "+
		"(Debian or Ubuntu, as root), or set AMQP_URL to use a broker of your own", e.Program, e.Looked)
}

// installation is a RabbitMQ on disk: home holds sbin, plugins and escript.
type installation struct {
	home string
	epmd string
	bin  string // Erlang's programs, "" where they are on PATH

	erlCall string // the system's, of any release: "" where there is none
}

// homes are the places where packages put RabbitMQ, in order of preference.
var homes = []string{
	"/usr/lib/rabbitmq/lib/rabbitmq_server-*", // Debian, Ubuntu, RPM
	"/opt/rabbitmq",           // container images
	"/usr/local/opt/rabbitmq", // Homebrew
	"/opt/homebrew/opt/rabbitmq",
}

// epmds are the places of Erlang's port mapper when it is not on PATH.
var epmds = []string{"/usr/lib/erlang/bin/epmd", "/usr/lib/erlang/erts-*/bin/epmd", "/opt/erlang/lib/erlang/bin/epmd"}

// findInstallation looks for RabbitMQ's own scripts. The wrappers in /usr/sbin are of no use: they insist on the
// rabbitmq user and on the system's folders.
func findInstallation(version string) (installation, error) {
	if version != "" {
		return findUnpacked(version)
	}
	in := installation{erlCall: findErlCall()}
	candidates := homes
	if own := os.Getenv("SHARDMQ_RABBITMQ_HOME"); own != "" {
		candidates = []string{own}
	}
	for _, pattern := range candidates {
		if in.home = newest(pattern, "sbin/rabbitmq-server"); in.home != "" {
			break
		}
	}
	if in.home == "" {
		return in, &NotInstalledError{Program: "rabbitmq-server", Looked: strings.Join(candidates, ", ")}
	}
	var err error
	if in.epmd, err = exec.LookPath("epmd"); err == nil {
		return in, nil
	}
	for _, pattern := range epmds {
		if in.epmd = newest(pattern, ""); in.epmd != "" {
			return in, nil
		}
	}
	return in, &NotInstalledError{Program: "epmd (Erlang)", Looked: "PATH, " + strings.Join(epmds, ", ")}
}

// findUnpacked looks for what integration/scripts/install-rabbitmq.sh unpacks.
func findUnpacked(version string) (installation, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return installation{}, fmt.Errorf("RabbitMQ %s: %w", version, err)
	}
	root := filepath.Join(cache, "shardmq", "rabbitmq-"+version)
	in := installation{
		home: newest(filepath.Join(root, "usr/lib/rabbitmq/lib/rabbitmq_server-*"), "sbin/rabbitmq-server"),
		bin:  filepath.Join(root, "bin"),

		erlCall: findErlCall(),
	}
	in.epmd = filepath.Join(in.bin, "epmd")
	if _, err := os.Stat(filepath.Join(root, "recipe")); err != nil || in.home == "" {
		return in, &NotInstalledError{Program: "rabbitmq-server", Version: version, Looked: root}
	}
	return in, nil
}

// erlCalls are the places of Erlang's program for a call to a node when it is not on PATH.
var erlCalls = []string{"/usr/lib/erlang/bin/erl_call", "/usr/lib/erlang/lib/erl_interface-*/bin/erl_call", "/opt/erlang/lib/erlang/bin/erl_call"}

func findErlCall() string {
	if path, err := exec.LookPath("erl_call"); err == nil {
		return path
	}
	for _, pattern := range erlCalls {
		if path := newest(pattern, ""); path != "" {
			return path
		}
	}
	return ""
}

// newest returns the last match of a pattern, in name order, that has the given file in it, or "".
func newest(pattern, file string) string {
	found, _ := filepath.Glob(pattern)
	sort.Strings(found)
	for i := len(found) - 1; i >= 0; i-- {
		if _, err := os.Stat(filepath.Join(found[i], file)); err == nil {
			return found[i]
		}
	}
	return ""
}

// lean makes, under dir, a copy of the installation by symbolic links that lacks the optional plugins nobody asked
// for, and returns it. Erlang searches every plugin's folder for every module it loads, and RabbitMQ reads the
// attributes of all of them at boot: without these some 35 folders a node is ready in two thirds of the time.
func (in installation) lean(dir string, plugins []string) (installation, error) {
	out := installation{home: dir, epmd: in.epmd, bin: in.bin, erlCall: in.erlCall}
	if err := os.MkdirAll(filepath.Join(dir, "plugins"), 0o755); err != nil {
		return out, fmt.Errorf("link installation: %w", err)
	}
	all, err := os.ReadDir(filepath.Join(in.home, "plugins"))
	if err != nil {
		return out, fmt.Errorf("read plugins: %w", err)
	}
	need := in.needed(plugins)
	for _, e := range all {
		name, _, _ := strings.Cut(e.Name(), "-")
		if strings.HasPrefix(name, "rabbitmq_") && !need[name] {
			continue
		}
		if err := os.Symlink(filepath.Join(in.home, "plugins", e.Name()), filepath.Join(dir, "plugins", e.Name())); err != nil {
			return out, fmt.Errorf("link plugin: %w", err)
		}
	}
	// The scripts look for their home one folder above themselves, so sbin is a real folder with links in it.
	return out, linkScripts(in.home, dir)
}

func linkScripts(from, to string) error {
	for _, sub := range []string{"sbin", "escript"} {
		files, err := os.ReadDir(filepath.Join(from, sub))
		if err != nil {
			return fmt.Errorf("read scripts: %w", err)
		}
		if err := os.MkdirAll(filepath.Join(to, sub), 0o755); err != nil {
			return fmt.Errorf("link scripts: %w", err)
		}
		for _, f := range files {
			if err := os.Symlink(filepath.Join(from, sub, f.Name()), filepath.Join(to, sub, f.Name())); err != nil {
				return fmt.Errorf("link scripts: %w", err)
			}
		}
	}
	return nil
}

// required matches the list of applications in an Erlang .app file.
var required = regexp.MustCompile(`\{\s*applications\s*,\s*\[([^\]]*)\]`)

// needed returns the plugins and all that they depend on, by their .app files, and so for the broker itself, some parts
// of which are named like plugins.
func (in installation) needed(plugins []string) map[string]bool {
	need := map[string]bool{}
	queue := append([]string{"rabbit", "rabbitmq_prelaunch"}, plugins...)
	for len(queue) > 0 {
		name := queue[0]
		queue = queue[1:]
		if need[name] {
			continue
		}
		need[name] = true
		files, _ := filepath.Glob(filepath.Join(in.home, "plugins", name+"-*", "ebin", name+".app"))
		for _, file := range files {
			text, _ := os.ReadFile(file)
			if m := required.FindSubmatch(text); m != nil {
				for dep := range strings.SplitSeq(string(m[1]), ",") {
					queue = append(queue, strings.Trim(dep, " \t\r\n'"))
				}
			}
		}
	}
	return need
}
