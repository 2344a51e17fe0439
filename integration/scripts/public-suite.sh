#!/usr/bin/env bash
# Runs the integration tests of a public client library, amqp091-go, against a
# RabbitMQ directly and through shardmq, and fails where they differ. The tests
# are copied to a temporary folder and compiled there; nothing of them stays.
#
#   integration/scripts/public-suite.sh [-version 4.3] [-run REGEXP]
#
# AMQP_URL names a RabbitMQ to use; otherwise one is started, with the management
# API at 127.0.0.1:15672, where some of the tests look for it. While something
# else has that port, they fail, directly as well. SHARDMQ_BINARY names a shardmq
# to use; otherwise one is built.
set -euo pipefail

module=github.com/rabbitmq/amqp091-go
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cd "$top"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

go mod download "$module"
cp -r "$(go list -m -f '{{.Dir}}' "$module")/." "$work"
chmod -R u+w "$work"

# As a module of its own: its dependencies are not ours.
(cd "$work" && GOFLAGS=-mod=mod go test -tags integration -c -o suite.test .)

go run ./integration/publicsuite "$@" "$work/suite.test" "$work"
