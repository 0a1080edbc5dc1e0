# SPDX-License-Identifier: Apache-2.0
# `make e2e`: the program in a real cluster that the tests start and end. Needs root, and once Go 1.26 to build Kubernetes.

.PHONY: e2e crd-check helm-check matrix kueue-test jobset-test

e2e:
	@test/e2e/build --check
	@[ "$$(id -u)" = 0 ] || { echo 'make e2e: must run as root: it starts containers and makes network links' >&2; exit 1; }
	@tools/setup build test e2e image
	$(SUB) programs fakes $(FAKE_CUDA) $(FAULT_LIBS)
	@test/e2e/build
	@LOAD='$(IMAGE_LOAD)' tools/image $(PROGRAM) '$(VERSION)' '$(IMAGE)' '$(IMAGE_OUT)'
	@TITLE='$(DEVICE_TITLE)' CONTAINERFILE=Containerfile.device-plugin tools/image '$(DEVICE_PLUGIN)' '$(VERSION)' '$(DEVICE_IMAGE)' \
		'$(DEVICE_IMAGE_OUT)'
	@POOLGATE=$(abspath $(BUILD))/poolgate $(PYTHON) -B -m pytest -q --no-header -rs -p no:cacheprovider --tb=short \
		--durations=10 $(if $T,-k '$T') test/e2e

# The CRD against the validation of API servers of other versions than the one that the tests run, each built once from its Go modules.
crd-check:
	@test/crd/run $(VERSIONS)

# The Helm chart beside kustomize, on a real API server and in a registry, with Helm 4 and 3, which are built once from their Go modules.
helm-check:
	@test/e2e/build --check etcd kube-apiserver kubectl
	@[ "$$(id -u)" = 0 ] || { echo 'make helm-check: must run as root: it makes network links' >&2; exit 1; }
	@tools/setup build test e2e
	@test/e2e/build etcd kube-apiserver kubectl
	@tools=$$(test/helm/build) && POOLGATE_HELM=$$tools $(PYTHON) -B -m pytest -q --no-header -rs -p no:cacheprovider --tb=short \
		$(if $T,-k '$T') test/helm

# API servers of other versions, upgrades between them and other projects' controllers, each built once from its Go modules; writes the
# table of docs/compatibility.md.
matrix:
	@test/e2e/build --check
	@[ "$$(id -u)" = 0 ] || { echo 'make matrix: must run as root: it starts containers and makes network links' >&2; exit 1; }
	@tools/setup build test e2e image matrix
	$(SUB) programs fakes
	@test/e2e/build
	@LOAD='$(IMAGE_LOAD)' tools/image $(PROGRAM) '$(VERSION)' '$(IMAGE)' '$(IMAGE_OUT)'
	@POOLGATE=$(abspath $(BUILD))/poolgate test/matrix/run $(ONLY)

# The version before is built of its own tree once, and upgraded to this one, by kubectl and by Helm.
.PHONY: upgrade-test
upgrade-test:
	@test/e2e/build --check
	@[ "$$(id -u)" = 0 ] || { echo 'make upgrade-test: must run as root: it starts containers and makes network links' >&2; exit 1; }
	@tools/setup build test e2e image
	$(SUB) programs
	@test/e2e/build
	@LOAD='$(IMAGE_LOAD)' tools/image $(PROGRAM) '$(VERSION)' '$(IMAGE)' '$(IMAGE_OUT)'
	@POOLGATE_UPGRADE=$$(test/upgrade/build) && POOLGATE_HELM=$$(test/helm/build) && export POOLGATE_UPGRADE POOLGATE_HELM && \
		POOLGATE=$(abspath $(BUILD))/poolgate $(PYTHON) -B -m pytest -q --no-header -rs -p no:cacheprovider --tb=short $(if $T,-k '$T') test/upgrade

# The real Kueue beside components/waiting, the real JobSet beside components/policies. Built once from their Go modules, as for `make matrix`.
kueue-test jobset-test:
	@test/e2e/build --check
	@[ "$$(id -u)" = 0 ] || { echo 'make $@: must run as root: it starts containers and makes network links' >&2; exit 1; }
	@tools/setup build test e2e image
	$(SUB) programs fakes
	@test/e2e/build
	@LOAD='$(IMAGE_LOAD)' tools/image $(PROGRAM) '$(VERSION)' '$(IMAGE)' '$(IMAGE_OUT)'
	@built=$$(test/matrix/build $(@:-test=)) && POOLGATE=$(abspath $(BUILD))/poolgate POOLGATE_MATRIX_CONTROLLERS="$(@:-test=)=$$built" $(PYTHON) -B \
		-m pytest -q --no-header -rs -p no:cacheprovider --tb=short --durations=5 $(if $T,-k '$T') test/matrix/test_$(@:-test=).py
