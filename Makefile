# Every target does its own set-up; see scripts/setup. A second run starts at once.

W ?=
PYTEST ?= pytest

.PHONY: help demo test test-long check bench format clean

help: ## What there is to make
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

demo: ## A factory, live: streams, a view over them, and what changes it (half a minute)
	@scripts/setup run python examples/factory.py

test: ## All tests but the long ones
	@scripts/setup test $(PYTEST) -n 2 --dist worksteal

test-long: ## The tests that take long: crashes, large data, many random cases
	@scripts/setup test $(PYTEST) -m long --timeout 5400

check: ## Format, lint, types, and the tests that need no Spark: seconds
	@scripts/setup check ruff format --check .
	@scripts/setup check ruff check .
	@scripts/setup check mypy
	@scripts/setup check $(PYTEST) -q -m "not long and not spark and not postgres"

bench: ## The benchmarks; W=name for one of them
	@scripts/setup test bench/run $(W)

format: ## Formats the code
	@scripts/setup check ruff format .
	@scripts/setup check ruff check --fix .

clean: ## Removes the environment and the caches
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
