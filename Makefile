# Two commands are enough to begin: make run, make test.
GO            ?= go
GOLANGCI_LINT ?= $(GO) run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
FUZZTIME      ?= 20s

.DEFAULT_GOAL := help
.PHONY: help run test race lint arrows tidy bench peers verify fuzz redis

help: ## List the targets.
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: ## Start the example: a Gin and an Echo app, embedded store, nothing to install.
	$(GO) run ./example

test: redis ## Run every test. Installs redis-server if it is missing and that is possible.
	$(GO) test -count=1 -shuffle=on ./...

race: redis ## Run every test under the race detector.
	$(GO) test -count=1 -shuffle=on -race ./...

lint: ## gofmt, go vet and golangci-lint.
	@test -z "$$(gofmt -l .)" || { gofmt -l .; echo "gofmt: the files above are not formatted"; exit 1; }
	$(GO) vet ./...
	cd bench && $(GO) vet ./...
	$(GOLANGCI_LINT) run ./...

arrows: ## Check that imports point one way.
	@GO=$(GO) .ci/arrows

tidy: ## Check that go.mod and go.sum are tidy.
	$(GO) mod tidy -diff
	$(GO) mod verify

bench: redis ## Run the benchmarks. Compare runs with benchstat.
	$(GO) test -run '^$$' -bench . -benchmem ./...

peers: redis ## Compare with other rate limiters, in one run (a module of its own).
	cd bench && $(GO) test -run '^$$' -bench . -benchmem ./...

verify: redis ## Show on real servers under load that limits hold, beside limiters that are wrong on purpose.
	$(GO) run ./verify

fuzz: ## Fuzz what reads bytes from outside, FUZZTIME each.
	@set -e; for p in $$($(GO) list ./...); do \
		for f in $$($(GO) test -list '^Fuzz' $$p | grep '^Fuzz' || true); do \
			echo "$$p $$f"; $(GO) test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME) $$p; \
		done; \
	done

redis: # Tests run against a real server, which each test package starts and stops by itself.
	@.ci/need-redis
