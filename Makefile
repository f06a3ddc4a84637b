# What a developer runs. `make help` lists it. Needs Go; PostgreSQL's programs are installed when they are missing.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# Both modules of go.work. The tools have one of their own.
packages := ./... ./sdk/go/...
# A release gives its version: make build VERSION=1.2.3
VERSION :=
# Words for the command of `make dev`: make dev ARGS="--data-dir /tmp/try"
ARGS :=

.PHONY: help
help: ## Show this list
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/\1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 12

.PHONY: dev
dev: build postgres ## Run the gateway on this machine, with a receiver, and send an event through it
	@exec bin/gateway dev $(ARGS)

.PHONY: smoke
smoke: build postgres ## The same without a hand: passes when the delivery was verified
	@bin/gateway dev --once

.PHONY: test
test: postgres ## Run the tests
	@go test $(packages)

.PHONY: race
race: postgres ## Run the tests with the race detector
	@go test -race $(packages)

.PHONY: lint
lint: bin/staticcheck ## Check the format, go vet, staticcheck
	@unformatted=$$(gofmt -l bench chaos cmd deploy interop internal migrations sdk); \
	if [[ -n $$unformatted ]]; then echo "run gofmt -w on:" $$unformatted >&2; exit 1; fi
	@go vet -tags chaos,interop $(packages)
	@bin/staticcheck $(packages)

.PHONY: generate
generate: ## Make all generated files anew
	@go generate $(packages)

.PHONY: interop
interop: build postgres ## Send real payloads of others through the program, and verify with the official library
	@cd interop && npm ci --silent
	@GATEWAY_TEST_PROGRAM=$(CURDIR)/bin/gateway go test -tags interop -count=1 -v ./interop | grep -v '^=== '

.PHONY: chaos-short
chaos-short: build postgres ## Kill the gateway and the database under load, and count what became of it
	@GATEWAY_TEST_PROGRAM=$(CURDIR)/bin/gateway go test -tags chaos -count=1 -v -timeout 170s ./chaos | grep -v '^=== '

.PHONY: bench
bench: build postgres ## Measure what a delivery costs here: all scenarios, or S=A
	@go build -o bin/bench ./bench
	@bin/bench $(if $(S),-s $(S))

.PHONY: sdk-test
sdk-test: ## Test the Go SDK as its users build it: alone, without the workspace
	@GOWORK=off go -C sdk/go vet ./...
	@GOWORK=off go -C sdk/go test ./...

.PHONY: build
build: ## Build bin/gateway
	@go build $(if $(VERSION),-ldflags "-X main.release=$(VERSION)") -o bin/gateway ./cmd/gateway

.PHONY: clean
clean: ## Delete what was built
	@rm -rf bin

.PHONY: postgres
postgres:
	@deploy/install-postgres.sh

bin/staticcheck: tools/go.mod tools/go.sum
	@GOWORK=off go -C tools build -o ../bin/staticcheck honnef.co/go/tools/cmd/staticcheck
