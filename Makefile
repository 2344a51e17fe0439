# Everything that is done with this repository. "make" alone lists the targets.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
# A half-written binary or list must not look finished.
.DELETE_ON_ERROR:

GO       ?= go
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
# The version is set below; without this a clone that belongs to another user
# does not build ("error obtaining VCS status").
export GOFLAGS ?= -buildvcs=false
LDFLAGS  := -s -w -X main.release=$(VERSION)
DEPS     := integration/scripts/install-deps.sh

RACE     ?= -race
TIMEOUT  ?= 40m
RUN      ?= .
BENCH    ?= .
FUZZTIME ?= 30s

##@ Use

.PHONY: help
help: ## list the targets and variables
	@awk 'BEGIN {FS = ":.*## "} \
	  /^##@ / {printf "\n%s\n", substr($$0, 5)} \
	  /^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))
	@printf '\nVariables\n'
	@printf '  %-19s %s\n' \
	  AMQP_URL 'use this RabbitMQ for demo, test and bench instead of private ones' \
	  RUN=REGEXP 'test: only tests that match' \
	  RACE= 'test: without the race detector' \
	  RANDOM_STEPS=100000 'test, test-matrix: how many random methods the proxy is compared with the broker by' \
	  RANDOM_SEED=N 'test, test-matrix: which ones' \
	  SOAK=5m 'test: how long consumers come and go, and a backlog of a million messages' \
	  BENCH=REGEXP 'bench: only benchmarks that match' \
	  PEERS='-only REGEXP' 'bench-peers: arguments for the program, such as -rounds 3' \
	  FUZZTIME=30s 'fuzz: time for each target'

.PHONY: build
build: ## build bin/shardmq, a static binary
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/shardmq ./cmd/shardmq

.PHONY: demo
demo: build ## see it work: 10,000 messages through a sharded exchange
	@$(DEPS) broker
	@SHARDMQ_BINARY='$(CURDIR)/bin/shardmq' $(GO) run ./integration/demo

##@ Develop

# One run of the test runner, so that its summary is the last thing to read.
# With the race detector the proxy that the integration tests start is built
# with it as well. Before, allocations are counted, because it makes some of its
# own, and most random sessions are played, because it is slow. REQUIRE_BROKER makes a missing broker a failure.
.PHONY: test
test: ## run all tests, with the race detector and real brokers; install what is missing
	@AMQP_URL= $(DEPS) broker versions clients relay browser $(if $(RACE),race)
	@$(MAKE) --no-print-directory check
	@$(GO) build $(RACE) -o bin/test/shardmq ./cmd/shardmq
	@$(if $(RACE),$(GO) test -run 'Allocate|Random|Simulation|AtEachStep|AlarmOrderedRestart' ./frames ./shards/... ./router ./proxy,:)
	REQUIRE_BROKER=1 SHARDMQ_BINARY='$(CURDIR)/bin/test/shardmq' \
	  $(GO) test $(RACE) -shuffle=on -timeout $(TIMEOUT) -run '$(RUN)' ./...

# A test that starts a broker of each release has onVersions in it.
.PHONY: test-matrix
test-matrix: ## run the tests whose outcome may depend on the broker on RabbitMQ 3.10, 4.0 and 4.3
	@AMQP_URL= $(DEPS) broker versions clients $(if $(RACE),race)
	@$(GO) build $(RACE) -o bin/test/shardmq ./cmd/shardmq
	@tests=$$(awk '/^func / {test = ""} /^func Test/ {test = $$2; sub(/[(].*/, "", test)} \
	    /onVersions[(]t/ && test != "" {print test}' integration/*_test.go | sort -u | paste -sd '|'); \
	  REQUIRE_BROKER=1 SHARDMQ_BINARY='$(CURDIR)/bin/test/shardmq' \
	  $(GO) test $(RACE) -count=1 -timeout $(TIMEOUT) -run "^($$tests)\$$" ./integration

.PHONY: public-suite
public-suite: build ## run a public client library's own tests directly and through the proxy, and compare
	@AMQP_URL='$(AMQP_URL)' $(DEPS) broker
	@SHARDMQ_BINARY='$(CURDIR)/bin/shardmq' integration/scripts/public-suite.sh

.PHONY: unit
unit: ## run the tests that need no broker, in seconds
	@$(GO) test -shuffle=on -run '$(RUN)' $$($(GO) list ./... | grep -v /integration)

.PHONY: clients-table
clients-table: ## write docs/clients.md anew from a run of every client on every RabbitMQ
	@AMQP_URL= $(DEPS) broker versions clients
	@$(GO) build -o bin/test/shardmq ./cmd/shardmq
	REQUIRE_BROKER=1 SHARDMQ_BINARY='$(CURDIR)/bin/test/shardmq' \
	  $(GO) test -count=1 -timeout $(TIMEOUT) -run '^TestClients$$' ./integration -args -clients-table

.PHONY: bench
bench: build ## measure: benchmarks of every package, then messages/s beside a plain TCP relay
	@$(DEPS) broker relay
	@$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem ./...
	@SHARDMQ_BINARY='$(CURDIR)/bin/shardmq' $(GO) run ./integration/bench -rounds 5 -only '^(publish|deliver)'

# Half an hour. amqproxy and amqpprox take part where they are on PATH.
.PHONY: bench-peers
bench-peers: build ## measure everything beside HAProxy and other proxies; writes bin/performance.md, docs/performance.svg
	@AMQP_URL= $(DEPS) broker relay
	@SHARDMQ_BINARY='$(CURDIR)/bin/shardmq' $(GO) run ./integration/bench -growth -plot -markdown bin/performance.md $(PEERS)

.PHONY: bench-dispatch
bench-dispatch: ## measure: no-op jobs/s of the dispatcher beside a bare loop of consume, POST and ack
	@AMQP_URL='$(AMQP_URL)' $(DEPS) broker
	@$(GO) run ./integration/bench/dispatch

# The quick part of lint, without anything to install.
.PHONY: check
check: generated
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then \
	  printf 'not formatted, run gofmt -w on:\n%s\n' "$$unformatted" >&2; exit 1; fi
	@$(GO) vet ./...

# Generated files must be what their generators make. They are made anew; if
# that changes anything, what was there was out of date.
.PHONY: generated
generated:
	@sums() { find . -name '*_gen.go' -not -path '*/node_modules/*' -print0 | sort -z | xargs -0r sha256sum; }; \
	  before=$$(sums); $(GO) generate ./...; \
	  if [ "$$before" != "$$(sums)" ]; then \
	    printf 'generated files were out of date; they are up to date now, commit them\n' >&2; exit 1; fi

.PHONY: lint
lint: check ## check formatting, vet, generated code and, if it is installed, golangci-lint
	@if command -v golangci-lint >/dev/null; then golangci-lint run ./...; \
	  else echo 'golangci-lint is not installed: ran gofmt, go vet and the generators only'; fi

# Go would spend most of the time on making interesting inputs shorter.
.PHONY: fuzz
fuzz: ## run every fuzz target for FUZZTIME
	@for package in $$($(GO) list ./...); do \
	  for target in $$($(GO) test -list '^Fuzz' "$$package" | grep '^Fuzz' || true); do \
	    echo "== $$package $$target"; \
	    $(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 20x "$$package"; \
	  done; \
	done

.PHONY: clean
clean: ## remove what was built and installed in this folder
	rm -rf bin integration/clients/node/node_modules
