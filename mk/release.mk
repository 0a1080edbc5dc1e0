# SPDX-License-Identifier: Apache-2.0
# `make release [VERSION=1.2.3] [REV=COMMIT]`: all that a release hands out, of one commit, in one folder; docs/release.md says what is in it.

RELEASE_OUT ?= build/releases/$(VERSION)
# Where images and archives will lie: what is made names them there.
REGISTRY ?=
RELEASE_URL ?= https://poolgate.invalid/releases/v$(VERSION)

.PHONY: release

release:
	@tools/setup build image deb
	@CC='$(CC)' CUDA_HOME='$(if $(HAVE_CUDA),$(abspath $(CUDA_HOME)))' REGISTRY='$(REGISTRY)' URL='$(RELEASE_URL)' \
		tools/release '$(VERSION)' '$(RELEASE_OUT)' '$(REV)'

# A release of a version that nobody has, what is in it, by krew's own check and Helm too, its signatures where the network is cut, and
# whether the tree is as it was.
.PHONY: release-test release-check
RELEASE_TEST = 98.76.54
RELEASE_PYTEST = RELEASE=build/releases/$(RELEASE_TEST) VERSION=$(RELEASE_TEST) $(PYTHON) -B -m pytest -q --no-header -rs -p no:cacheprovider \
	--tb=short $(if $T,-k '$T')

release-test:
	@tools/setup build test image deb
	+@tree() { git status --porcelain; git diff HEAD; }; before=$$(tree) && $(MAKE) --no-print-directory release VERSION=$(RELEASE_TEST) && \
		[ "$$(tree)" = "$$before" ] || { echo 'make release: the tree is not as it was' >&2; exit 1; }
	@KREW_VALIDATE=$$(test/release/krew) POOLGATE_HELM=$$(test/helm/build) $(RELEASE_PYTEST) test/release/test_release.py
	@export POOLGATE_COSIGN=$$(test/release/cosign) POOLGATE_HELM=$$(test/helm/build) && unshare --net $$([ "$$(id -u)" = 0 ] || echo --map-root-user) \
		sh -c 'ip link set lo up && "$$@"' sh env $(RELEASE_PYTEST) test/release/test_signatures.py

# Two releases of one commit, in two roots that have little in common, are the same bytes.
release-check:
	@tools/setup build image deb twice
	@CUDA_HOME='$(if $(HAVE_CUDA),$(abspath $(CUDA_HOME)))' test/release/twice '$(RELEASE_TEST)' $(REV)
