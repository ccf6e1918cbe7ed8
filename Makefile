# `make` alone prints the targets. CI uses the same targets.
GO      ?= go
export CGO_ENABLED ?= 0
# Without the paths of its files, what is compiled in one clone of the repository serves all others of the machine.
# Without the data for debuggers, which the linker leaves out, a fifth of the time to compile is saved.
export GOFLAGS := $(GOFLAGS) -trimpath -gcflags=all=-dwarf=false

.DEFAULT_GOAL := help
.PHONY: help build demo test check static archtest fuzz sim mutations plan race conformance lab nested nova neutron
.PHONY: kills migration pictures bench bench-flames bench-peer bench-plots packages packages-test release tools

help: ## print these targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build ./berth, a static binary
	$(GO) build $(VERBOSE) -trimpath -buildvcs=auto -ldflags='-s -w' -o berth ./cmd/berth

demo: ## build ./berth, printing each package that is compiled, and run the tour on this machine
	@echo 'compiling about 430 packages, which takes two minutes the first time'
	@$(MAKE) --no-print-directory build VERBOSE=-v
	./berth demo

test: ## run the tests that need only Go, in under three minutes; prints what only `make check` runs
	GO=$(GO) sh .ci/quick-tests

check: ## run all tests except lab, mutations, kills, migration, with real databases and services; installs them (root)
	@$(MAKE) --no-print-directory -j2 tools static
	GO=$(GO) sh .ci/all-tests

static: ## check formatting, vet, commit subjects and go.mod
	sh .ci/static-checks

archtest: ## check imports, pure packages, comments, words and sizes
	$(GO) test ./internal/archtest

fuzz: ## run each fuzz target for FUZZTIME (10s)
	sh .ci/fuzz

sim: ## simulate a cloud with OPS random operations (5000000) from SEED (1), and check its invariants
	OPS=$(or $(OPS),5000000) SEED=$(or $(SEED),1) $(GO) test -run Seeds -count 1 -timeout 120m -v ./internal/sim

mutations: ## break production code on purpose and see that the simulated clouds notice it; five minutes
	$(GO) test -run 'TestMutatedProductionIsNoticed|TestRareMistakesAreNoticed' -count 1 -timeout 40m ./internal/sim

kills: tools ## kill each service at each request of an operation; `make check` does it at every fifth; ten minutes
	$(GO) test -run 'TestKill(AtEachRequest|NetworkDatabaseAtCommits)$$' -count 1 -timeout 90m ./cmd/berth -kill-step 1

migration: tools ## migrate a Linux guest live between two hosts of libvirt, with failures; needs a quiet machine
	$(GO) test -run 'TestLibvirtLiveMigration$$' -count 1 -timeout 20m ./cmd/berth

plan: ## compare plans of random guests with brute force, for FOR (10m) in each of three tests, from case SEED (0)
	$(GO) test -run 'Everything|Headroom' -count 1 -timeout 0 -v ./plan -plan.for=$(or $(FOR),10m) -plan.case=$(or $(SEED),0)

race: tools ## run the tests with the race detector, and sqldb's also in SQLite; half an hour
	GO=$(GO) sh .ci/race-tests
	CGO_ENABLED=1 $(GO) test -race -count=1 -timeout 20m ./sqldb

conformance: tools ## compare with OpenStack's Placement at each microversion, and in 200 random worlds; 15 minutes
	$(GO) test -count=1 -timeout 60m ./internal/conformance -sweep 1 -checks 200

lab: ## test devices on a real kernel with SR-IOV and NUMA in QEMU
	$(GO) test -tags lab -count=1 -timeout 40m -v ./internal/lab

nested: tools ## test guests of libvirt that use VFs of that kernel; up to 30 minutes
	$(GO) test -tags nested -run Nested -count=1 -timeout 40m -v ./internal/lab

nova: ## run OpenStack's Nova with its fake driver on Berth's Placement; installs Nova, Neutron, RabbitMQ (as root)
	sh .ci/install-nova-packages
	sh .ci/install-neutron-packages
	$(GO) test -tags nova -count=1 -timeout 60m -v ./internal/nova

neutron: ## run OpenStack's Neutron on Berth's Placement; installs Neutron and RabbitMQ (as root)
	sh .ci/install-neutron-packages
	$(GO) test -tags neutron -count=1 -timeout 20m -v ./internal/neutron

pictures: tools ## make the pictures of the documents in docs/pictures, with Chromium
	mkdir -p docs/pictures
	$(GO) test -tags pictures -run TestPictures -count=1 ./cmd/berth -pictures $(CURDIR)/docs/pictures

packages: ## build binaries, packages, images and the source archive of the commit into dist; needs only Go
	cd packaging && $(GO) run . -out ../dist

packages-test: ## build the packages twice, and follow them on fresh machines, up to ssh into guests (root, 20 minutes)
	sh .ci/install-debian-packages "make packages-test" mmdebstrap systemd-container rpm iproute2
	cd packaging && $(GO) test -count=1 -timeout 90m -v ./...

bench: ## measure Berth alone, COUNT times (1); the output is for benchstat
	$(GO) test -run '^$$' -bench . -count $(or $(COUNT),1) -timeout 60m ./internal/app ./internal/bench ./placement/candidate ./placement/explain ./placement/index ./plan

bench-peer: tools ## measure Berth beside OpenStack's own Placement (of the source tree SOURCE) and print the ratios
	$(if $(SOURCE),sh .ci/install-debian-packages "make bench-peer" python3-prettytable)
	$(GO) test -tags peer -run Peer -count 1 -timeout 60m -v ./internal/bench $(if $(SOURCE),-source $(abspath $(SOURCE)))

bench-flames: ## draw where the processor time of benchmarks that miss their goal goes, in docs/flames; five minutes
	$(GO) run ./internal/flamegraphs

bench-plots: ## measure how the figures grow with the size, and draw them in docs/benchmarks.md; 40 minutes
	$(GO) run ./internal/benchplots

release: ## check everything, build the packages and tag the commit as VERSION, such as 0.1.0; an hour
	.ci/release $(VERSION)

tools: ## install the Debian packages that the tests need and that are missing (as root)
	sh .ci/install-test-packages
