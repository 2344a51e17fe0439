package rig

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// Eval evaluates Erlang expressions, given without the final dot, in the node and returns the last one's value as text: a
// string as it is, any other term as Erlang writes it. An exception in them is an error. It takes milliseconds, where
// rabbitmqctl, which starts an Erlang or two of its own, takes a second of the processor's time.
func (n *Node) Eval(ctx context.Context, expressions string) (string, error) {
	if err := n.inUse(); err != nil {
		return "", fmt.Errorf("evaluate: %w", err)
	}
	return n.eval(ctx, expressions)
}

// eval is Eval on a node that is in use.
func (n *Node) eval(ctx context.Context, expressions string) (string, error) {
	// The value is text in hexadecimal, which is printed as it is: erl_call prints terms in a way of its own.
	text := fmt.Sprintf(`(fun(R) -> case io_lib:printable_unicode_list(R) of true -> R; false -> io_lib:format("~tp", [R]) end
		end)(begin %s end)`, expressions)
	whole := "binary_to_list(binary:encode_hex(unicode:characters_to_binary(" + text + "))).\n"
	if n.erlCall == "" {
		out, err := n.tool(ctx, "eval", whole)
		if err != nil {
			return "", err
		}
		return n.value(out)
	}
	out, err := n.call(ctx, whole)
	if err != nil {
		return "", err
	}
	value, ok := strings.CutPrefix(strings.TrimSpace(out), "{ok, ") // else {error, Why}
	if !ok {
		return "", fmt.Errorf("evaluate on %s: %s", n.Name, out)
	}
	return n.value(strings.TrimSuffix(value, "}"))
}

// value decodes a list of hexadecimal digits, as Erlang prints it: as text, or, from 64 KiB on, number by number.
func (n *Node) value(printed string) (string, error) {
	digits := strings.Trim(strings.TrimSpace(printed), `"[]`)
	if strings.Contains(digits, ",") {
		var all []byte
		for number := range strings.SplitSeq(digits, ",") {
			digit, _ := strconv.ParseUint(strings.TrimSpace(number), 10, 8) // what is none is no digit either
			all = append(all, byte(digit))
		}
		digits = string(all)
	}
	text, err := hex.DecodeString(digits)
	if err != nil {
		return "", fmt.Errorf("evaluate on %s: the value is %s", n.Name, printed)
	}
	return string(text), nil
}

// call has erl_call evaluate expressions and returns what it prints.
func (n *Node) call(ctx context.Context, expressions string) (string, error) {
	cmd := exec.CommandContext(ctx, n.erlCall, "-R", "-sname", n.Name, "-e")
	cmd.WaitDelay = time.Second
	cmd.Env, cmd.Dir, cmd.Stdin = n.env, n.dir, strings.NewReader(expressions)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("evaluate on %s: %w: %s%s", n.Name, err, out.String(), errOut.String())
	}
	return out.String(), nil
}

// erlang writes Go values as Erlang terms: strings as binaries.
func erlang(format string, args ...string) string {
	quoted := make([]any, len(args))
	for i, a := range args {
		quoted[i] = `<<"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(a) + `"/utf8>>`
	}
	return fmt.Sprintf(format, quoted...)
}
