#!/usr/bin/env bash
# Installs what the demo, the tests and the benchmarks need beyond Go, and only
# what is missing: a second run changes nothing and needs no network.
#
#   integration/scripts/install-deps.sh [broker|versions|race|clients|relay|browser]...
#
#   broker    RabbitMQ (not needed if AMQP_URL names one of your own)
#   versions  other releases of RabbitMQ, see install-rabbitmq.sh
#   race      a C compiler, for Go's race detector
#   clients   the AMQP libraries of the client matrix (Python, Node, Ruby, PHP,
#             Java, C, Perl) and what runs them, the AMQP specification
#   relay     HAProxy, the plain TCP relay of the benchmarks (Debian has no packages of amqproxy
#             and amqpprox, which take part in them where they are on PATH)
#   browser   Chromium, for the web page
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
has_chromium() { have chromium || have chromium-browser || have google-chrome; }
has_cc() { have "${CC:-gcc}" && echo 'int main(void){return 0;}' | "${CC:-gcc}" -x c - -o /dev/null 2>/dev/null; }
# Debian's Python, whatever else is first on PATH: that is where its packages go.
has_python() { /usr/bin/python3 -c 'import sys, importlib.util as u; sys.exit(not all(map(u.find_spec, sys.argv[1:])))' "$@" 2>/dev/null; }
has_pika() { has_python pika; }
has_celery() { has_python amqp kombu celery; }
has_specs() { [ -d /usr/share/amqp/specs/0-9-1-rabbit ]; }
has_node() { have node; }
has_npm() { have npm; }
has_bunny() { have ruby && ruby -e 'gem "bunny"' 2>/dev/null; }
has_php() { have php && php -r 'exit((int) !(extension_loaded("amqp") && is_file("/usr/share/php/PhpAmqpLib/autoload.php")));'; }
has_javac() { have javac && have java; }
has_java_client() { [ -e /usr/share/java/amqp-client.jar ] && [ -e /usr/share/java/slf4j-nop.jar ]; }
has_librabbitmq() { echo 'int main(void){return 0;}' | "${CC:-gcc}" -include amqp_tcp_socket.h -x c - -lrabbitmq -o /dev/null 2>/dev/null; }
has_amqp_tools() { have amqp-consume; }
has_perl_client() { have perl && perl -MAnyEvent::RabbitMQ -e 1 2>/dev/null; }

[ $# -gt 0 ] || set -- broker versions race clients relay browser
node_modules=
versions=
for group in "$@"; do
  case $group in
    broker) [ -n "${AMQP_URL:-}${SHARDMQ_RABBITMQ_HOME:-}" ] || want has_rabbitmq rabbitmq-server ;;
    versions) versions=yes ;;
    race) want has_cc gcc libc6-dev ;;
    relay) want has_haproxy haproxy ;;
    browser) want has_chromium chromium ;;
    clients)
      want has_pika python3-pika
      want has_specs amqp-specs
      want has_node nodejs
      want has_npm npm
      want has_celery python3-amqp python3-kombu python3-celery
      want has_bunny ruby-bunny
      want has_php php-cli php-amqp php-amqplib
      want has_javac default-jdk-headless
      want has_java_client librabbitmq-client-java libslf4j-java
      want has_cc gcc libc6-dev
      want has_librabbitmq librabbitmq-dev
      want has_amqp_tools amqp-tools
      want has_perl_client libanyevent-rabbitmq-perl
      node_modules=yes
      ;;
    *)
      say "unknown group '$group'; known: broker versions race clients relay browser"
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
