package rig

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// baseEnv is the environment of every program of the rig: nothing of the caller's but where programs and temporary
// files are. A RABBITMQ_ or ERL_ variable of the developer's must not reach a test node.
func baseEnv() []string {
	env := []string{"LANG=C.UTF-8"}
	for _, name := range []string{"PATH", "TMPDIR"} {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// environment is baseEnv with the installation's own Erlang first on PATH.
func (in installation) environment() []string {
	env := baseEnv()
	for i, v := range env {
		if path, is := strings.CutPrefix(v, "PATH="); is && in.bin != "" {
			env[i] = "PATH=" + in.bin + string(os.PathListSeparator) + path
		}
	}
	return env
}

// serverArgs: RABBITMQ_ALLOW_INPUT makes the start script exec Erlang instead of waiting for it, so that the process
// we started is the node; -noinput takes back the shell that this gives. Distribution stays on loopback, and epmd is
// ours. Two schedulers boot faster than one and cost less than one for each core.
const serverArgs = "-noinput -start_epmd false -kernel inet_dist_use_interface {127,0,0,1} +S 2:2 +SDio 2"

// config returns the lines of rabbitmq.conf.
func (t *NodeTLS) config(address string) string {
	verify := "verify_none"
	if t.ClientCerts {
		verify = "verify_peer"
	}
	return fmt.Sprintf("\nlisteners.ssl.default = %s\nssl_options.cacertfile = %s\nssl_options.certfile = %s\nssl_options.keyfile = %s\n"+
		"ssl_options.verify = %s\nssl_options.fail_if_no_peer_cert = %t\n", address, t.CA, t.Cert, t.Key, verify, t.ClientCerts)
}

// prepare writes the node's files and fills in its environment. It needs the ports.
func (n *Node) prepare(o NodeOptions, in installation, epmdPort int) error {
	for _, sub := range []string{"home", "mnesia", "log"} {
		if err := os.MkdirAll(filepath.Join(n.dir, sub), 0o700); err != nil {
			return fmt.Errorf("node folder: %w", err)
		}
	}
	path := func(name string) string { return filepath.Join(n.dir, name) }
	files := map[string]string{
		"home/.erlang.cookie": space.cookie,
		"rabbitmq-env.conf":   "",
	}
	if o.ProxyProtocol {
		o.Config += "\nproxy_protocol = true\n"
	}
	if o.Config != "" { // reading a rabbitmq.conf costs about 0.4 s of start time, even an empty one
		files["rabbitmq.conf"] = strings.TrimRight(o.Config, "\n") + "\n"
	}
	for name, text := range files {
		if err := os.WriteFile(path(name), []byte(text), 0o600); err != nil {
			return fmt.Errorf("node file: %w", err)
		}
	}
	n.plugins = slices.Clone(o.Plugins)
	if err := n.writePlugins(); err != nil {
		return err
	}
	n.sbin, n.erlCall = filepath.Join(in.home, "sbin"), in.erlCall
	n.env = append(in.environment(),
		"HOME="+path("home"),
		"ERL_EPMD_PORT="+strconv.Itoa(epmdPort),
		"ERL_EPMD_ADDRESS=127.0.0.1",
		"ERL_CRASH_DUMP_SECONDS=0", // none: the log says enough
		"RABBITMQ_SCRIPTS_DIR="+n.sbin,
		"RABBITMQ_PLUGINS_DIR="+filepath.Join(in.home, "plugins"),
		"RABBITMQ_CONF_ENV_FILE="+path("rabbitmq-env.conf"),
		"RABBITMQ_NODENAME="+n.Name,
		"RABBITMQ_NODE_IP_ADDRESS=127.0.0.1",
		"RABBITMQ_NODE_PORT="+strconv.Itoa(n.port),
		"RABBITMQ_DIST_PORT="+strconv.Itoa(n.distPort),
		"RABBITMQ_MNESIA_BASE="+path("mnesia"),
		"RABBITMQ_LOG_BASE="+path("log"),
		"RABBITMQ_LOGS=-",
		"RABBITMQ_ENABLED_PLUGINS_FILE="+n.pluginsFile(),
		"RABBITMQ_CONFIG_FILE="+path("rabbitmq.conf"),
		"RABBITMQ_CONFIG_FILES="+path("conf.d/*.conf"),
		"RABBITMQ_ADVANCED_CONFIG_FILE="+path("advanced.config"),
		"RABBITMQ_PID_FILE="+path("pid"),
		"RABBITMQ_ALLOW_INPUT=1",
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS="+serverArgs,
		"RABBITMQ_CTL_ERL_ARGS=-kernel inet_dist_use_interface {127,0,0,1}",
	)
	return nil
}
