# SPDX-License-Identifier: Apache-2.0
# `poolgate doctor`: the manifests that lie in the program, and its test against a real API server.

$(BUILD)/webhook/cli/doctor/doctor_shipped.o: $(shell sed -n 's/.*"\(manifests[^"]*\)".*/\1/p' webhook/cli/doctor/doctor_shipped.c)

.PHONY: doctor-test

# Needs root, for addresses of its own, and the real binaries that `make e2e` builds.
doctor-test:
	@test/e2e/build --check
	@[ "$$(id -u)" = 0 ] || { echo 'make doctor-test: must run as root: its API server has an address of its own' >&2; exit 1; }
	@tools/setup build test e2e
	$(SUB) programs $(BUILD)/test/unit/test_doctor $(BUILD)/test/unit/test_doctor_lists
	@test/e2e/build etcd kube-apiserver kubectl
	@$(BUILD)/test/unit/test_doctor && $(BUILD)/test/unit/test_doctor_lists
	@POOLGATE=$(abspath $(BUILD))/poolgate $(PYTHON) -B -m pytest -q --no-header -rs -p no:cacheprovider --tb=short test/e2e/test_doctor.py
