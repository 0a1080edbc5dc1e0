# SPDX-License-Identifier: Apache-2.0
# `make registry-test`: what images start, from registries over TLS that mean well or harm, on this machine: names are given addresses by a
# resolver of the tests' own (test/registry/names.c), and nothing beyond the loopback is asked.

.PHONY: registry-test

registry-test:
	@tools/setup build test
	$(SUB) programs
	@POOLGATE=$(abspath $(PROGRAM)) $(PYTHON) -B -m pytest -q --no-header -rs -p no:cacheprovider --tb=short $(if $T,-k '$T') test/registry
