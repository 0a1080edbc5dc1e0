# SPDX-License-Identifier: Apache-2.0
# What an operator sees: `make page-test` (the page in a browser), `make metrics-test` (the metrics in a Prometheus).

.PHONY: page-test metrics-test

page-test:
	@tools/setup build test browser
	$(SUB) programs
	@PICTURES='$(PICTURES)' POOLGATE=$(abspath $(PROGRAM)) $(PYTHON) -B -m pytest -q --no-header -rs -p no:cacheprovider --tb=short \
		$(if $T,-k '$T') test/page

metrics-test:
	@tools/setup build test prometheus
	$(SUB) programs
	@PICTURES='$(PICTURES)' POOLGATE=$(abspath $(PROGRAM)) $(PYTHON) -B -m pytest -q --no-header -rs -p no:cacheprovider --tb=short \
		$(if $T,-k '$T') test/metrics
