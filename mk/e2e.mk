# SPDX-License-Identifier: Apache-2.0
# `make e2e`: the program in a real cluster that the tests start and end. Needs root, and once Go 1.26 to build Kubernetes.

.PHONY: e2e crd-check

e2e:
	@test/e2e/build --check
	@[ "$$(id -u)" = 0 ] || { echo 'make e2e: must run as root: it starts containers and makes network links' >&2; exit 1; }
	@tools/setup build test e2e image
	$(SUB) programs fakes
	@test/e2e/build
	@LOAD='$(IMAGE_LOAD)' tools/image $(PROGRAM) '$(VERSION)' '$(IMAGE)' '$(IMAGE_OUT)'
	@TITLE='$(DEVICE_TITLE)' CONTAINERFILE=Containerfile.device-plugin tools/image '$(DEVICE_PLUGIN)' '$(VERSION)' '$(DEVICE_IMAGE)' \
		'$(DEVICE_IMAGE_OUT)'
	@POOLGATE=$(abspath $(BUILD))/poolgate $(PYTHON) -B -m pytest -q --no-header -rs -p no:cacheprovider --tb=short \
		--durations=10 $(if $T,-k '$T') test/e2e

# The CRD against the validation of API servers of other versions than the one that the tests run, each built once from its Go modules.
crd-check:
	@test/crd/run $(VERSIONS)
