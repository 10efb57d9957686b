# make help lists the targets.
VERSION   ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
COMMIT    ?= $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
LDFLAGS   := -s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT)
FUZZTIME  ?= 30s
TOOL      := go tool -modfile=tools.mod
UNITS      = $(shell go list ./... | grep -v '/e2e')
# dir/FuzzName of every fuzz target
FUZZ       = $(sort $(shell grep -roE '^func Fuzz[A-Za-z0-9_]+' --include='*_test.go' --exclude-dir=e2e . | sed -E 's|^./(.*)/[^/]*:func |\1/|'))
IMAGE     ?= ghcr.io/ackproxy/ackproxy
CONTAINER ?= $(shell command -v buildah || command -v docker || command -v podman)

.PHONY: help build test lint golden bench fuzz e2e plugin-kill withhold crash cover image

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "%-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## bin/ackproxy, static
	CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags '$(LDFLAGS)' -o bin/ackproxy ./cmd/ackproxy

test: lint ## everything: lint, unit, chart and end-to-end tests, with the race detector (needs a C compiler)
	CGO_ENABLED=1 go test -race -timeout 40m ./...

lint: ## gofmt, go vet, staticcheck
	@out=$$(gofmt -l .) && test -z "$$out" || { echo "gofmt -l: $$out"; exit 1; }
	go vet ./...
	$(TOOL) staticcheck ./...

golden: ## rewrite the chart's golden files
	go test ./helm -update

bench: ## ackproxy beside other proxies, 20 minutes; BENCH=-short takes two (docs/performance.md)
	-go run ./bench install
	go run ./bench $(BENCH)

fuzz: $(FUZZ:%=fuzz/%) ## each fuzz target in turn for FUZZTIME (30s); one alone: make fuzz/codec/FuzzName
	@test -n '$(FUZZ)' || { echo 'no fuzz targets found'; exit 1; }

fuzz/%:
	go test -run '^$$' -fuzz '^$(@F)$$' -fuzztime $(FUZZTIME) ./$(*D)

e2e: ## the end-to-end tests alone
	CGO_ENABLED=1 go test -race -timeout 40m -v ./e2e/...

RUNS ?= 100
plugin-kill: ## kill a plugin RUNS times (100) under load, and count what is missing
	go run ./e2e/pluginkill -runs $(RUNS)

SECONDS ?= 600
withhold: ## withhold acknowledgements at random for SECONDS (600) on a real broker, and compare what came of it
	go run ./e2e/withhold/run -seconds $(SECONDS)

BROKER ?= kfake
crash: ## kill ackproxy RUNS times (100) while all is rejected, and look for what the dead-letter topic lacks; BROKER=kafka takes a real broker
	go run ./e2e/crash/run -runs $(RUNS) -broker $(BROKER)

cover: ## coverage of each package by its own tests
	go test -cover $(UNITS)

image: ## container image IMAGE:VERSION, with buildah, docker or podman (docs/operations.md)
	@test -n '$(CONTAINER)' || { echo 'neither buildah nor docker nor podman found'; exit 1; }
	$(CONTAINER) build --build-arg VERSION=$(VERSION) --build-arg COMMIT=$(COMMIT) $(if $(GO_IMAGE),--build-arg GO_IMAGE=$(GO_IMAGE)) -t $(IMAGE):$(VERSION) .
