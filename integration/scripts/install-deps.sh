#!/usr/bin/env bash
# Installs what the demo, the tests and the benchmarks need beyond Go, and only
# what is missing: a second run changes nothing and needs no network.
#
#   integration/scripts/install-deps.sh [broker|versions|race|clients|relay]...
#
#   broker    RabbitMQ (not needed if AMQP_URL names one of your own)
#   versions  other releases of RabbitMQ, see install-rabbitmq.sh
#   race      a C compiler, for Go's race detector
#   clients   Python with pika, Node with amqplib, the AMQP specification
#   relay     HAProxy, the plain TCP relay of the benchmarks
#
# Without arguments: all of them. On Debian and its relatives packages are
# installed with apt, as root or through sudo; elsewhere the script says what to
# install and fails.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

say() { printf '%s\n' "install-deps: $*" >&2; }
have() { command -v "$1" >/dev/null 2>&1; }

missing=()

# want COMMAND PACKAGE...: the packages are missing unless the command succeeds.
want() {
  local check=$1
  shift
  "$check" || missing+=("$@")
}

# rabbitmqctl and its kind live in sbin, which is not on every user's PATH.
has_rabbitmq() { PATH=$PATH:/usr/sbin:/sbin have rabbitmq-server; }
has_haproxy() { PATH=$PATH:/usr/sbin:/sbin have haproxy; }
has_cc() { have "${CC:-gcc}" && echo 'int main(void){return 0;}' | "${CC:-gcc}" -x c - -o /dev/null 2>/dev/null; }
# Debian's Python, whatever else is first on PATH: that is where pika goes.
has_pika() { /usr/bin/python3 -c 'import pika' >/dev/null 2>&1; }
has_specs() { [ -d /usr/share/amqp/specs/0-9-1-rabbit ]; }
has_node() { have node; }
has_npm() { have npm; }

[ $# -gt 0 ] || set -- broker versions race clients relay
node_modules=
versions=
for group in "$@"; do
  case $group in
    broker) [ -n "${AMQP_URL:-}${SHARDMQ_RABBITMQ_HOME:-}" ] || want has_rabbitmq rabbitmq-server ;;
    versions) versions=yes ;;
    race) want has_cc gcc libc6-dev ;;
    relay) want has_haproxy haproxy ;;
    clients)
      want has_pika python3-pika
      want has_specs amqp-specs
      want has_node nodejs
      want has_npm npm
      node_modules=yes
      ;;
    *)
      say "unknown group '$group'; known: broker versions race clients relay"
      exit 2
      ;;
  esac
done

# install PACKAGE...: with apt, without starting the services that come along:
# the tests start private brokers, and port 5672 may be somebody's.
install() {
  if ! have apt-get; then
    say "missing: $*; install these (Debian's names) and run it again"
    exit 1
  fi
  root=()
  if [ "$(id -u)" -ne 0 ]; then
    if ! have sudo || ! sudo -n true 2>/dev/null; then
      say "missing: $*; run: sudo apt-get install --no-install-recommends $*"
      exit 1
    fi
    root=(sudo -n)
  fi
  say "installing $*"
  policy=/usr/sbin/policy-rc.d
  if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' | "${root[@]}" tee "$policy" >/dev/null
    "${root[@]}" chmod 755 "$policy"
    trap '"${root[@]}" rm -f "$policy"' EXIT
  fi
  "${root[@]}" apt-get update -qq </dev/null >&2
  "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "$@" </dev/null >&2
}

if [ ${#missing[@]} -gt 0 ]; then
  install "${missing[@]}"
fi
if [ -n "$versions" ]; then
  "$here/install-rabbitmq.sh" 4.0 4.3
fi
if [ -n "$node_modules" ]; then
  "$here/install-node-modules.sh"
fi
