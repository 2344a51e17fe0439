package rig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Ctl runs rabbitmqctl with the given arguments on the node and returns what it printed. The error contains it too. Of the
// commands that the tests use most, in the forms that they use, it does what rabbitmqctl would have the node do.
func (n *Node) Ctl(ctx context.Context, args ...string) (string, error) {
	expressions, known := ctlCommand(args)
	out, err := "", n.inUse()
	switch {
	case err == nil && known:
		out, err = n.eval(ctx, expressions)
	case err == nil:
		return n.tool(ctx, args...)
	}
	if err != nil {
		return "", fmt.Errorf("rabbitmqctl %s: %w", strings.Join(args, " "), err)
	}
	return out, nil
}

// ctlCommand returns what a command of rabbitmqctl has the node evaluate.
func ctlCommand(args []string) (expressions string, known bool) {
	given, o := options(args)
	vhost := o["-p"]
	if vhost == "" {
		vhost = "/"
	}
	const by = `, <<"rig">>)`
	switch name, p := given[0], given[1:]; {
	case name == "eval" && len(p) == 1:
		return strings.TrimSuffix(strings.TrimSpace(p[0]), "."), true
	case name == "add_user" && len(p) == 2:
		return erlang("ok = rabbit_auth_backend_internal:add_user(%s, %s"+by, p...), true
	case name == "set_permissions" && len(p) == 4:
		return erlang("ok = rabbit_auth_backend_internal:set_permissions(%s, %s, %s, %s, %s"+by, p[0], vhost, p[1], p[2], p[3]), true
	case name == "set_policy" && len(p) == 3:
		apply := o["--apply-to"]
		if apply == "" {
			apply = "all"
		}
		return erlang("ok = rabbit_policy:parse_set(%s, %s, %s, %s, 0, %s"+by, vhost, p[0], p[1], p[2], apply), true
	case name == "clear_policy" && len(p) == 1:
		return erlang("ok = rabbit_policy:delete(%s, %s"+by, vhost, p[0]), true
	case name == "set_vm_memory_high_watermark" && len(p) == 1:
		if fraction, err := strconv.ParseFloat(p[0], 64); err == nil {
			return fmt.Sprintf("ok = vm_memory_monitor:set_vm_memory_high_watermark(%f)", fraction), true
		}
	}
	return "", false
}

// options takes the options that ctlCommand knows out of the arguments of rabbitmqctl.
func options(args []string) (given []string, o map[string]string) {
	o = map[string]string{}
	for i := 0; i < len(args); i++ {
		if (args[i] == "-p" || args[i] == "--apply-to") && i+1 < len(args) {
			o[args[i]] = args[i+1]
			i++
			continue
		}
		given = append(given, args[i])
	}
	return given, o
}

// Plugins enables or disables plugins on the running node, as rabbitmq-plugins does: what is "enable" or "disable". A
// plugin that NodeOptions did not ask for cannot be enabled. (The tool itself starts an Erlang for every look at its
// settings, and then waits for five seconds before it disables.)
func (n *Node) Plugins(ctx context.Context, what string, names ...string) error {
	n.mu.Lock()
	if what == "enable" {
		n.plugins = append(n.plugins, names...)
	} else {
		n.plugins = slices.DeleteFunc(n.plugins, func(p string) bool { return slices.Contains(names, p) })
	}
	err := n.writePlugins()
	n.mu.Unlock()
	if err != nil {
		return err
	}
	if _, err := n.Eval(ctx, fmt.Sprintf("{ok, _, _} = rabbit_plugins:ensure(%q)", n.pluginsFile())); err != nil {
		return fmt.Errorf("%s plugins %v: %w", what, names, err)
	}
	return nil
}

func (n *Node) pluginsFile() string { return filepath.Join(n.dir, "enabled_plugins") }

// writePlugins writes the list of enabled plugins. Called with mu held.
func (n *Node) writePlugins() error {
	text := "[" + strings.Join(n.plugins, ",") + "].\n"
	if err := os.WriteFile(n.pluginsFile(), []byte(text), 0o600); err != nil {
		return fmt.Errorf("node file: %w", err)
	}
	return nil
}

// joining makes the node a member of the cluster that %s is in, in the background: its connections to other nodes, that of
// whoever asks included, may break meanwhile. RabbitMQ has rabbit_db_cluster since 3.12.
const joining = `persistent_term:erase(rig_joined), spawn(fun() ->
	group_leader(whereis(user), self()),
	persistent_term:put(rig_joined, catch begin
		ok = rabbit:stop(),
		ok = case code:which(rabbit_db_cluster) of
			non_existing -> rabbit_mnesia:reset(), rabbit_mnesia:join_cluster(%[1]s, disc);
			_ -> rabbit_db:reset(), rabbit_db_cluster:join(%[1]s, disc)
		end,
		rabbit:start()
	end) end)`

// Join makes the node a member of the other's cluster. What the node held before is lost.
func (n *Node) Join(ctx context.Context, other *Node) error {
	if _, err := n.Eval(ctx, fmt.Sprintf(joining, "'"+other.Name+"'")); err != nil {
		return fmt.Errorf("join %s: %w", other.Name, err)
	}
	child := n.running()
	if child == nil {
		return fmt.Errorf("node %s does not run", n.Name)
	}
	var result string
	err := poll(ctx, child, func() (err error) {
		if result, err = n.Eval(ctx, "persistent_term:get(rig_joined, going_on)"); err == nil && result == "going_on" {
			err = errors.New("it is going on")
		}
		return err
	})
	if err == nil && result != "ok" {
		err = errors.New(result)
	}
	if err == nil {
		err = poll(ctx, child, func() error { return n.login(ctx) })
	}
	if err != nil {
		return fmt.Errorf("node %s joins %s: %w; end of its log:\n%s", n.Name, other.Name, err, n.LogTail(60))
	}
	return nil
}
