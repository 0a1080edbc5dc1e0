# SPDX-License-Identifier: Apache-2.0
# `make security-test`: what docs/security.md says of the listeners, of floods, of the manifests and of the lists of what is in the images. With
# Go it builds kube-score, once; with the programs that `make e2e` builds, and as root, it also tries Pod Security on a real API server: tests of
# `make e2e`, which BESIDE_E2E=1 leaves out.

.PHONY: security-test

security-test:
	@tools/setup build test
	$(SUB) programs bench-programs
	@POOLGATE=$(abspath $(PROGRAM)) $(PYTHON) -B -m pytest -q --no-header -rs -p no:cacheprovider --tb=short $(if $T,-k '$T') test/security
ifeq ($(T)$(BESIDE_E2E),)
	@if [ "$$(id -u)" = 0 ] && [ -x "$$(test/e2e/build --where)/kube-apiserver" ]; then \
		$(PYTHON) -B -m pytest -q --no-header -rs -p no:cacheprovider --tb=short test/e2e/test_manifests.py \
			-k 'our_namespace_takes_our_pods or probe_pod_is_admitted or device_plugin_pod_is_admitted'; \
	else echo 'security-test: Pod Security was not tried: it takes root and the programs that `make e2e` builds'; fi
endif
