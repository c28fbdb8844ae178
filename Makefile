# Everything a developer or the CI runs. `make` alone shows the targets.

# kustomize (under kubectl's and Argo CD's packages) imports plugin, which makes
# the linker bind everything at start; a binary with NVML then dies on a host
# without the NVIDIA driver. gRPC's tracing serves pages from templates, which
# keeps the linker from dropping any method, and registers them with net/http. Every
# build, test and lint has these tags, so that none of it can come in.
TAG      := kustomize_disable_go_plugin_support,grpcnotrace
GOFLAGS  := $(strip $(shell go env GOFLAGS) -tags=$(TAG))
export GOFLAGS

RIG       := test/e2e/rig
GENERATED := docs/reference docs/runbooks playbooks/schema
SEEDS     ?= 10000
# The first commit with a chart; from the first release on, its tag.
FROM      ?= 7dbfb6c2a5bd
ARCHITECTURES ?= amd64 arm64
# The agent is linked with the C library, so each of its platforms needs a C compiler (deploy/image/compiler.sh).
AGENT_ARCHITECTURES ?= $(ARCHITECTURES)
# Where make image writes.
OUT       ?= bin
GO_DIRS   := $(wildcard cmd internal deploy test playbooks tools third_party)
STRIPPED  := go build -trimpath -buildvcs=auto -ldflags=-s

.DEFAULT_GOAL := help
.PHONY: FORCE build sbom image chart test lint vulnerabilities e2e levers fixture soak bench demo generate clean help

bin/responder: FORCE
	@go build -trimpath -buildvcs=auto -o $@ ./cmd/responder

# The demo alone: without the clients of Argo CD, Git and the forges a first build takes half as long.
bin/responder-demo: FORCE
	@go build -trimpath -buildvcs=auto -o $@ ./cmd/responder/demo

build: bin/responder ## build bin/responder, bin/responder-helm and bin/responder-agent
	@go build -trimpath -buildvcs=auto -o bin/responder-helm ./cmd/responder/helm
	@go build -trimpath -buildvcs=auto -o bin/responder-agent ./cmd/responder/agent

sbom: build ## software bills of materials next to the binaries: bin/*.cdx.json, CycloneDX
	@go run ./deploy/sbom bin/responder bin/responder-helm bin/responder-agent

image: ## container images as OCI layouts: bin/image/responder, bin/image/agent (ARCHITECTURES="amd64 arm64", AGENT_ARCHITECTURES)
	@for arch in $(AGENT_ARCHITECTURES); do deploy/image/compiler.sh $$arch >/dev/null || exit 1; done
	@rm -rf $(OUT)/programs
	@set -e; for arch in $(ARCHITECTURES); do export CGO_ENABLED=0 GOOS=linux GOARCH=$$arch; dir=$(OUT)/programs/responder/$$arch; \
	$(STRIPPED) -o $$dir/responder ./cmd/responder; $(STRIPPED) -o $$dir/responder-helm ./cmd/responder/helm; done
	@set -e; for arch in $(AGENT_ARCHITECTURES); do cc=$$(deploy/image/compiler.sh $$arch); \
	CC=$$cc CGO_ENABLED=1 GOOS=linux GOARCH=$$arch $(STRIPPED) -o $(OUT)/programs/agent/$$arch/responder-agent ./cmd/responder/agent; done
	@go run ./deploy/sbom $(OUT)/programs/*/*/* >/dev/null
	@go run ./deploy/image -o $(OUT)/image/responder $(foreach arch,$(ARCHITECTURES),linux/$(arch)=$(OUT)/programs/responder/$(arch))
	@$(if $(AGENT_ARCHITECTURES),go run ./deploy/image -o $(OUT)/image/agent $(foreach arch,$(AGENT_ARCHITECTURES),\
	-compiler "linux/$(arch)=$$(deploy/image/compiler.sh $(arch))") $(foreach arch,$(AGENT_ARCHITECTURES),linux/$(arch)=$(OUT)/programs/agent/$(arch)),rm -rf $(OUT)/image/agent)

chart: bin/responder ## the Helm chart as a package, with the version of this commit: bin/chart/responder-VERSION.tgz
	@go run ./deploy/chart/pack -o bin/chart bin/responder

test: ## unit tests: no servers, no root, no GPU
	@go test -timeout 20m ./...

lint: ## formatting, linters, generated files up to date
	@tools=$$($(RIG)/build.sh tools); \
	files=$$($$tools/gofumpt -l $(GO_DIRS)); \
	if [ -n "$$files" ]; then echo "not formatted; run gofumpt -w:"; echo "$$files"; exit 1; fi; \
	$$tools/golangci-lint run ./...
	@$(MAKE) --no-print-directory generate
	@git diff --exit-code --stat -- $(GENERATED) || { echo "generated files are out of date: run make generate and commit"; exit 1; }
	@new=$$(git ls-files --others --exclude-standard -- $(GENERATED)); \
	if [ -n "$$new" ]; then echo "generated files are not committed:"; echo "$$new"; exit 1; fi

vulnerabilities: ## known vulnerabilities that the programs reach (skipped where Go's database cannot be reached)
	@.ci/vulnerabilities -tags=$(TAG)

e2e: ## real servers: Kubernetes API, Prometheus, Alertmanager, Argo CD, Flux (first time: 20 min of building, root for apt-get)
	@$(RIG)/packages.sh
	@$(RIG)/build.sh kubebox >/dev/null
	@$(RIG)/kubectl.sh >/dev/null
	@$(RIG)/build.sh argobox >/dev/null
	@$(RIG)/sources.sh sourcebox >/dev/null
	@$(RIG)/sources.sh appsetbox >/dev/null
	@$(RIG)/flux.sh >/dev/null
	@CGO_ENABLED=0 go test -trimpath -tags=e2e,$(TAG) ./test/e2e/... -timeout 40m -count=1 -parallel 8

levers: ## every lever killed, refused, cut off and overtaken at a real API server (7 min; not a part of e2e)
	@$(RIG)/packages.sh
	@$(RIG)/build.sh kubebox >/dev/null
	@$(RIG)/kubectl.sh >/dev/null
	@CGO_ENABLED=0 go test -trimpath -tags=e2e,levers,$(TAG) ./test/e2e -count=1 -timeout 30m -v -run '^TestEveryLever$$'

fixture: ## the chart that TestChartUpgrade upgrades from: make fixture FROM=COMMIT
	@mkdir -p bin && git -C deploy/chart archive --prefix=responder/ -o $(CURDIR)/bin/chart-before.tar $(FROM) . ':!*.go' ':!testdata'
	@gzip -n9 <bin/chart-before.tar >test/e2e/testdata/chart-before.tgz

soak: ## simulate executors through random incidents: make soak SEEDS=100000
	@go test ./internal/executor -run '^TestSimulation$$' -timeout 0 -sim.seeds=$(SEEDS) -sim.from=1000

bench: ## benchmarks
	@go test -run '^$$' -bench . -benchmem ./...

demo: bin/responder-demo ## an incident in a simulated cluster, on this machine
	@bin/responder-demo

generate: ## regenerate reference documentation and schemas
	@go generate ./...

clean: ## remove build outputs (the cached test servers stay)
	@rm -rf bin

help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
