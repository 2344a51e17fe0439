#!/usr/bin/env bash
# The client matrix's session with librabbitmq's command-line tools: session.sh
# URL EXCHANGE QUEUE KIND. They declare no exchange, so that messages go through
# the default exchange; the exchange and its kind are not used.
set -euo pipefail

url=$1
queue=$3
messages=20
patience=60 # seconds for every wait: only something that is broken takes so long

fail() {
  printf '%s\n' "$*" >&2
  exit 1
}

tool() {
  local name=$1
  shift
  timeout "$patience" "amqp-$name" --url="$url" "$@"
}

publish() { tool publish --routing-key="$queue" --body="$1"; }

# left: whether there is a message; amqp-get tells by its exit code.
left() {
  local code=0
  tool get --queue="$queue" || code=$?
  [ "$code" -eq 0 ] || [ "$code" -eq 2 ] || fail "amqp-get ended with $code"
  return "$code"
}

# what the broker said, from a tool's error text
said() { sed -nE 's/.*server channel error ([0-9]+)h?, message: (.*)$/\1 \2/p' "$1"; }

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

version=$(dpkg-query --show --showformat='${Version}' amqp-tools 2>/dev/null || echo unknown) # they do not say it themselves
echo "version ${version%%-*}"

[ "$(tool declare-queue --durable --queue="$queue")" = "$queue" ] || fail "another queue was declared"
echo "ok declare: queue; the tools declare no exchange"

for i in $(seq "$messages"); do
  echo "message $i"
done >"$scratch/sent"
tool publish --routing-key="$queue" --line-buffered <"$scratch/sent"
echo "n/a confirm: the tools ask for none"

tool consume --queue="$queue" --prefetch-count=10 --count="$messages" cat >"$scratch/received"
sort "$scratch/sent" | cmp - <(sort "$scratch/received") || fail "received: $(cat "$scratch/received")"
echo "ok consume: $messages messages, each once"

# amqp-consume acknowledges what its command has dealt with; the rest would be in the queue again.
if left; then fail "a message is left"; fi
echo "ok ack: nothing left"
echo "n/a nack: a message whose command fails is only not acknowledged"

for i in 1 2 3; do publish "get $i"; done
for i in 1 2 3; do left && echo; done | sort | cmp - <(printf 'get %d\n' 1 2 3) || fail "other messages"
if left; then fail "a fourth message"; fi
echo "ok get: 3 messages, then empty"
echo "n/a rpc: the tools do not show where a reply goes"

if tool get --queue=missing 2>"$scratch/error"; then fail "a missing queue was there"; fi
echo "ok error: $(said "$scratch/error"); the next command goes on"

echo "n/a reconnect: each command connects anew, and amqp-consume does not notice a close before the socket ends"
