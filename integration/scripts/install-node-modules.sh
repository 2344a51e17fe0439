#!/usr/bin/env bash
# Installs the Node clients' packages exactly as package-lock.json has them,
# unless they are there already: a second run needs no network.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../clients/node"

# What was installed is remembered as a checksum of what was asked for.
stamp=node_modules/.installed
want=$(cat package.json package-lock.json | sha256sum | cut -d ' ' -f 1)
if [ "$(cat "$stamp" 2>/dev/null || true)" = "$want" ]; then
  exit 0
fi
printf 'install-deps: installing the Node clients\n' >&2
npm ci --prefer-offline --ignore-scripts --no-audit --no-fund --loglevel=error </dev/null >&2
printf '%s\n' "$want" >"$stamp"
