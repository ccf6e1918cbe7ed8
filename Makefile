# `make` alone prints the verbs below; everything CI runs, a person runs with the same verb.
GO      ?= go
export CGO_ENABLED ?= 0

.DEFAULT_GOAL := help
.PHONY: help build demo test race law fuzz lab client tools

help: ## print these verbs
	@awk -F':.*## ' '/^[a-z]+:.*## /{printf "make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build ./berth, a static binary
	$(GO) build -trimpath -o berth ./cmd/berth

demo: ## run the tour on this machine
	$(GO) run ./cmd/berth demo

test: tools ## everything CI checks but the lab: vet, the law, all tests with the race detector
	sh .ci/check
	CGO_ENABLED=1 $(GO) test -race -timeout 15m ./...

law: ## only the law: imports, pure rooms, comments, sizes
	$(GO) test ./internal/law

fuzz: ## fuzz every parser for a short while each (FUZZTIME=10s)
	sh .ci/fuzz

lab: ## boot a real kernel with SR-IOV and NUMA in QEMU and run the demo in it
	$(GO) test -tags lab -count=1 -timeout 20m -v ./internal/lab

tools: ## install what the tests need from Debian's packages (as root, when missing)
	sh .ci/tools
