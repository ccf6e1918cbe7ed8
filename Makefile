# `make` alone prints the verbs below; everything CI runs, a person runs with the same verb.
GO      ?= go
export CGO_ENABLED ?= 0

.DEFAULT_GOAL := help
.PHONY: help build demo test check law fuzz sim lab nova bench bench-peer tools

help: ## print these verbs
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build ./berth, a static binary
	$(GO) build -trimpath -o berth ./cmd/berth

demo: ## run the tour on this machine
	$(GO) run ./cmd/berth demo

test: ## the tests that need Go alone, about three minutes; prints what is left to `make check`
	GO=$(GO) sh .ci/quick

check: tools ## all tests but the lab, with real databases and OpenStack services; installs what it needs (as root)
	sh .ci/check
	GO=$(GO) sh .ci/test

law: ## only the law: imports, pure rooms, comments, sizes
	$(GO) test ./internal/archtest

fuzz: ## fuzz every parser for a short while each (FUZZTIME=10s)
	sh .ci/fuzz

sim: ## run a simulated cloud through OPS operations from SEED on and check its invariants (OPS=5000000 SEED=1)
	OPS=$(or $(OPS),5000000) SEED=$(or $(SEED),1) $(GO) test -run Seeds -count 1 -timeout 120m -v ./internal/sim

lab: ## boot a real kernel with SR-IOV and NUMA in QEMU and live the life of devices on it
	$(GO) test -tags lab -count=1 -timeout 20m -v ./internal/lab

nova: ## let OpenStack's Nova, with its fake driver, live on Berth's Placement; installs Nova and RabbitMQ from Debian's packages
	sh .ci/tools-nova
	$(GO) test -tags nova -run Nova -count=1 -timeout 20m -v ./internal/clienttest

bench: ## measure Berth alone; the output is for benchstat (COUNT=1)
	$(GO) test -run '^$$' -bench . -count $(or $(COUNT),1) -timeout 60m ./internal/bench ./placement/candidate ./placement/explain ./placement/index

bench-peer: tools ## measure Berth and OpenStack's own Placement side by side and print the ratios
	$(GO) test -tags peer -run Peer -count 1 -timeout 60m -v ./internal/bench

tools: ## install what the tests need from Debian's packages (as root, when missing)
	sh .ci/tools
