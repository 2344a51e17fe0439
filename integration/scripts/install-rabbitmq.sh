#!/usr/bin/env bash
# Puts other releases of RabbitMQ than the system's own where the tests find
# them: Debian's packages of it, with the Erlang and the C library they were
# built for, unpacked into a folder of their own. Nothing on the system changes
# and no right beyond writing there is needed. What is there stays as it is: a
# second run needs no network.
#
#   integration/scripts/install-rabbitmq.sh 4.0|4.3...
#
#   4.0   the 4.0 of Debian 13
#   4.3   4.3 or later, from the release of Debian that is being prepared
#
# It unpacks into $XDG_CACHE_HOME/shardmq/rabbitmq-VERSION, ~/.cache if that is
# not set; about 100 MB each, for which some 60 MB are fetched. Packages come
# from the mirror that apt itself uses, or from SHARDMQ_DEBIAN_MIRROR, and are
# verified as apt verifies them. Needs apt-get and dpkg-deb (Debian, Ubuntu).
set -euo pipefail

# Raise this when what is unpacked changes: older folders are made anew.
recipe=2

cache=${XDG_CACHE_HOME:-$HOME/.cache}/shardmq
keyring=/usr/share/keyrings/debian-archive-keyring.gpg

say() { printf '%s\n' "install-rabbitmq: $*" >&2; }
fail() {
  say "$*"
  exit 1
}

# What the packages want besides, and the tests do not: it is on the system, or
# of no use without a service to start.
assumed=(adduser debconf logrotate openssl passwd procps python3 rabbitmqadmin-ng socat systemd systemd-standalone-sysusers)

# mirror: where apt gets this system's own packages.
mirror() {
  if [ -n "${SHARDMQ_DEBIAN_MIRROR:-}" ]; then
    printf '%s\n' "$SHARDMQ_DEBIAN_MIRROR"
    return
  fi
  (
    . /etc/os-release
    [ "$ID" = debian ] || exit 0
    # shellcheck disable=SC2016 # these are apt's variables
    apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
      awk -v own="$VERSION_CODENAME" '($2 == own || $2 == "stable") && $3 == "main" && !found {print $1; found = 1}'
  )
}

# apt COMMAND...: apt-get or apt-cache over the lists in $work, as if nothing
# but $assumed were installed.
apt() {
  local command=$1
  shift
  "$command" -o Dir::State="$work/state" -o Dir::State::status="$work/state/status" \
    -o Dir::Cache="$work/cache" -o Dir::Etc::sourcelist="$work/sources.list" -o Dir::Etc::sourceparts=/dev/null \
    -o Dir::Etc::preferences=/dev/null -o Dir::Etc::preferencesparts=/dev/null \
    -o Acquire::Languages=none -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false \
    -o Acquire::Check-Valid-Until=false -o Acquire::Retries=3 -o APT::Sandbox::User="$(id -un)" \
    "$@" </dev/null
}

# fetch SUITE LEAST BELOW: the packages of a suite's RabbitMQ and all they need,
# into $work/cache, if its version is in the range.
fetch() {
  local suite=$1 least=$2 below=$3 version
  rm -rf "$work/state" "$work/cache"
  mkdir -p "$work/state/lists/partial" "$work/cache/archives/partial"
  printf 'Package: %s\nStatus: install ok installed\nVersion: 999\nArchitecture: all\nMulti-Arch: allowed\nMaintainer: none\nDescription: none\n\n' \
    "${assumed[@]}" >"$work/state/status"
  printf 'deb [signed-by=%s] %s %s main\n' "$keyring" "$from" "$suite" >"$work/sources.list"
  apt apt-get -qq update >&2 || return 1
  version=$(apt apt-cache show --no-all-versions rabbitmq-server | sed -n 's/^Version: //p')
  if ! dpkg --compare-versions "$version" ge "$least" || ! dpkg --compare-versions "$version" lt "$below"; then
    say "$suite has RabbitMQ '$version'"
    return 1
  fi
  say "fetching RabbitMQ $version from $suite"
  apt apt-get -qq -y --no-install-recommends --download-only install rabbitmq-server >&2
}

# unpack DIR: what was fetched, without documentation, and in DIR/bin Erlang's
# programs. Those that are there as machine code need the packages' own loader
# and libraries, so small scripts that start them so stand in their places.
unpack() {
  local dir=$1 package loader erts program
  for package in "$work"/cache/archives/*.deb; do
    dpkg-deb -x "$package" "$dir"
  done
  rm -rf "$dir"/etc "$dir"/var "$dir"/usr/share "$dir"/usr/bin "$dir"/usr/sbin
  loader=$(cd "$dir" && find usr/lib -path '*-linux-gnu*/ld-linux*.so.*' | head -n 1)
  erts=$(cd "$dir" && find usr/lib -path '*/erts-*/bin/beam.smp')
  [ -n "$loader" ] && [ -n "$erts" ] || fail "the packages are not laid out as expected"
  erts=${erts%/*}
  mkdir "$dir/bin"
  for program in beam.smp epmd erl_child_setup erlexec escript heart inet_gethost; do
    stand_in "bin/$program" "$erts/$program"
  done
  for program in "$dir"/usr/lib/erlang/lib/*/priv/bin/*; do
    program=${program#"$dir"/}
    [ "$(head -c 4 "$dir/$program")" = $'\x7fELF' ] || continue
    mv "$dir/$program" "$dir/$program.elf"
    stand_in "$program" "$program.elf"
  done
  cat >"$dir/bin/erl" <<'EOF'
#!/bin/sh
BINDIR=${0%/*}
ROOTDIR=$BINDIR/../usr/lib/erlang
EMU=beam
PROGNAME=erl
export BINDIR ROOTDIR EMU PROGNAME
exec "$BINDIR/erlexec" "$@"
EOF
  chmod 755 "$dir/bin/erl"
  "$dir/bin/erl" -noshell -eval '{module, crypto} = code:ensure_loaded(crypto), ok = application:start(sasl),
    ok = application:start(os_mon), halt(0).' >"$work/log" 2>&1 || fail "the unpacked Erlang does not run: $(cat "$work/log")"
  printf '%s\n' "$recipe" >"$dir/recipe"
}

# stand_in SCRIPT PROGRAM: the script, which runs the program with the loader.
# Both are paths within dir; the caller's dir and loader are used.
stand_in() {
  local script=$1 program=$2 up
  up=$(sed 's,[^/]*/,../,g' <<<"${script%/*}/")
  cat >"$dir/$script" <<EOF
#!/bin/sh
root=\${0%/*}/${up%/}
exec "\$root/$loader" --library-path "\$root/${loader%/*}" --argv0 "\$0" "\$root/$program" "\$@"
EOF
  chmod 755 "$dir/$script"
}

# provide VERSION LEAST BELOW SUITE...: from the first suite that has it.
provide() {
  local version=$1 least=$2 below=$3 suite program target=$cache/rabbitmq-$1
  shift 3
  if [ "$(cat "$target/recipe" 2>/dev/null || true)" = "$recipe" ]; then
    return
  fi
  for program in apt-get apt-cache dpkg dpkg-deb; do
    command -v "$program" >/dev/null || fail "RabbitMQ $version is unpacked from Debian's packages, and there is no $program here"
  done
  [ -r "$keyring" ] || fail "install debian-archive-keyring: there is no $keyring"
  from=$(mirror)
  [ -n "$from" ] || fail "apt's sources name no mirror of Debian; set SHARDMQ_DEBIAN_MIRROR"
  for suite in "$@"; do
    if fetch "$suite" "$least" "$below"; then
      mkdir "$work/new"
      unpack "$work/new"
      rm -rf "$target"
      mv -T "$work/new" "$target"
      say "RabbitMQ $version is in $target"
      return
    fi
  done
  fail "RabbitMQ $version could not be had from: $*"
}

[ $# -gt 0 ] || fail "which? 4.0 or 4.3"
mkdir -p "$cache"
# One run at a time; the others find it done.
exec 9>"$cache/lock"
flock 9
rm -rf "$cache"/new-* # of a run that was killed
work=$(mktemp -d "$cache/new-XXXXXX")
trap 'rm -rf "$work"' EXIT
for version in "$@"; do
  case $version in
    4.0) provide 4.0 4.0 4.1~ trixie ;;
    4.3) provide 4.3 4.3 5~ forky sid ;;
    *) fail "unknown version '$version'; known: 4.0 4.3" ;;
  esac
done
