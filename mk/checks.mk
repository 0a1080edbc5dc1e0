# SPDX-License-Identifier: Apache-2.0
# The targets that run things. Each sees to its own set-up first, then builds in a second make: by then pkg-config
# answers even on a machine that had nothing a minute ago.

JOBS := $(shell nproc 2>/dev/null || echo 2)
SUB = +@$(MAKE) --no-print-directory $(if $(findstring -j,$(MAKEFLAGS)),,-j$(JOBS))
SECONDS ?= 60
T ?=

.PHONY: help need-build run test unit golden probe integration inject-roundtrip lint san san-address san-thread fuzz fuzz-grow fuzz-programs \
	bench-instructions footprint cover check size house graph compdb clean

help:
	@echo 'make                       build the program: build/release/poolgate'
	@echo 'make run                   set up, build, start a server with a small pool and show what it does (ONCE=1: then end)'
	@echo 'make test                  set up, build, run the unit, house, golden, probe and integration tests'
	@echo 'make unit [T=buf]          the unit tests, or one of them; UPDATE=1 rewrites what kept answers are compared with'
	@echo 'make golden [UPDATE=1]     the golden cases; UPDATE=1 rewrites the pods that no model judges'
	@echo 'make integration           the tests against the running server'
	@echo 'make inject-roundtrip [N=300] [SEED=1]  inject, again, and uninject, over manifests of every style: only the place changes'
	@echo 'make gate-test             gpugate between pods, an API server and a GPU server that are played; as root'
	@echo 'make gate-thread [T=test_mps]  the same over programs with TSan: ten minutes'
	@echo 'make faults                what the program does when the machine or a client fails it; BESIDE_TEST=1 leaves out what make test runs'
	@echo 'make soak [MINUTES=30]     2000 reviews a second, each answer checked, while connections die and everything is replaced'
	@echo 'make e2e [T=name]           as root: a real cluster with a node that runs pods, started and ended by the tests'
	@echo 'make crd-check [VERSIONS=1.30.14]  would API servers 1.30 to 1.37 take our CRD?'
	@echo 'make matrix [ONLY="1.30.14 kueue"]  as root: API servers 1.30 to 1.37, upgrades, and Kueue, JobSet, LeaderWorkerSet, KubeRay'
	@echo 'make kueue-test [T=jobs]     as root: the real Kueue beside pods that wait for GPUs'
	@echo 'make jobset-test             as root: the real JobSet beside a policy for half of the groups'
	@echo 'make helm-check            as root: the Helm chart renders what kustomize does, and lives on a real API server and in a registry'
	@echo 'make doctor-test           as root: poolgate doctor against a real API server in which one thing after the other is broken'
	@echo 'make lint                  format, clang-tidy, cppcheck, gcc -fanalyzer, shellcheck, floors'
	@echo 'make san                   all tests with ASan and UBSan, then a load of 8 clients with TSan'
	@echo 'make mutants [N=400] [SEED=1] [QUICK=1] [FILES=...] [AGAIN=LOG]  small changes of the sources that no test notices'
	@echo 'make registry-test         what images start, from registries that mean well or harm'
	@echo 'make fuzz [SECONDS=60]     every fuzz target for so long, and what each reached; fuzz-grow keeps what was found'
	@echo 'make sim [SEEDS=n|SECONDS=n]  the ledger under seeded schedules and faults; SEED=n: one, with its trace; sim-test: what CI runs'
	@echo 'make sim-steady [UPDATE=1]  what the simulator'"'"'s replicas say where nothing is left to its scheduler, beside what they said'
	@echo 'make sim-faithful          the simulator'"'"'s API server against recorded answers of a real one; sim-record, as root: records them'
	@echo 'make sim-scale [SERVERS=10000 PODS=1000000] [REPLICAS=1,3]  a day of a large pool in virtual time: conflicts, refusals, waste'
	@echo 'make sim-exhaustive [BOUNDS=0+2]  every way that a small world can go, but for so many switches and faults'
	@echo 'make bench-instructions    instructions per request, memory, time to the first reply'
	@echo 'make page-test              the page with the pool in a headless browser; PICTURES=docs/img writes the pictures of the docs'
	@echo 'make metrics-test           the metrics in a real Prometheus, its alerts and the dashboard'
	@echo 'make bench [T=rate] [QUICK=1]  reviews beside nginx and a minimal Go webhook, on two idle cores; writes docs/performance'
	@echo 'make gates [RECORD=1]      instructions and system calls for each request against the recorded ones; silent handshakes'
	@echo 'make bench-ledger [T=rate]  as root: the ledger in front of a real API server: pods a second, delays, memory'
	@echo 'make bench-queue          the queue of waiting pods: what it takes to decide on an event, with 10,000 of them'
	@echo 'make bench-gate            gpugate beside stunnel, and by address beside a bare splice loop: throughput, CPU, round trips'
	@echo 'make bench-scale [SERVERS="100 10000"]  a replica in front of a large pool: list, events, decisions, how long its lock is held, memory'
	@echo 'make cover                 line coverage of the unit and golden tests'
	@echo 'make check                 test, lint and san'
	@echo 'make size                  lines of C, files and tests, room by room, beside what they are held to; tools/size COMMIT: of then'
	@echo 'make graph                 what includes and calls what, room by room; make house draws the picture of docs/design.md; make compdb for editors'
	@echo 'make image [IMAGE=NAME]    the container image: build/image/poolgate.oci.tar; image-check proves what it promises'
	@echo 'make deploy                images, manifests and the device plugin on the current context; REGISTRY=… or BRING=COMMAND'
	@echo 'make cuda                  fetch what gpuprobe is built with into build/cuda; or say CUDA_HOME=/usr/local/cuda everywhere'
	@echo 'make gpuprobe              build gpuprobe and gpuprobe-shared; probe-check proves what they promise without a GPU'
	@echo 'make gate-gpu-check        on a server with a GPU: gpugate before its driver, NVML and MPS (half a minute)'
	@echo 'make gpu-check             on a server with a GPU: gpuprobe there, with planted faults, its speed against what is expected (7 minutes)'
	@echo 'make probe-image           its container image: build/probe-image/gpuprobe.oci.tar; probe-image-check proves what it promises'
	@echo 'make device-plugin-image   the device plugin'\''s: build/device-plugin-image/; device-plugin-image-check proves what it promises'
	@echo 'make gate-image            gpugate'\''s: build/gate-image/; gate-image-check proves what it promises'
	@echo 'make probe-ptx             gpuprobe without a GPU: its kernels on an interpreter of PTX, with planted faults (probe-ptx-all: the slow ones, too)'
	@echo 'make probe-golden          the arithmetic that GPUs are compared with, by several compilers'
	@echo 'make install               DESTDIR= PREFIX=/usr/local'
	@echo 'make dist                  the tree of the last commit: build/dist/poolgate-$(VERSION).tar.gz'
	@echo 'make deb                   Debian packages of it in build/deb; as root deb-check installs them in a clean Debian 12'
	@echo 'make release [VERSION=1.2.3]  all that a release hands out, in build/releases/1.2.3; release-test looks whether it does what it promises'
	@echo 'make release-check         as root: two releases of a commit, in two roots that have little in common, are the same bytes'
	@echo 'make upgrade-test          as root: the version before is installed and upgraded to this one, by kubectl and by Helm, while pods run and wait'
	@echo 'make arm64                 the programs for 64-bit ARM, cross-built into build/arm64; arm64-check runs their unit tests by qemu'
	@echo 'make clean                 remove build/'
	@echo
	@echo 'V=1 shows commands; WERROR=1 makes warnings errors; SAN=address,undefined or SAN=thread builds an instrumented'
	@echo 'program in a folder of its own; CC, CFLAGS, CPPFLAGS and LDFLAGS are respected.'

# A plain `make` only says what is missing; the targets below install it when they may.
need-build:
	@tools/setup --check build

run:
	@tools/setup build run
	$(SUB) programs
	@POOLGATE=$(BUILD)/poolgate ONCE='$(ONCE)' tools/demo

test:
	@tools/setup build test
	$(SUB) programs unit-programs
	@POOLGATE=$(BUILD)/poolgate $(PYTHON) test/run --build $(BUILD)

unit golden probe integration:
	@tools/setup build test
	$(SUB) $(if $(filter unit,$@),$(if $T,$(BUILD)/test/unit/test_$T,unit-programs),programs $(if $(filter probe,$@),fakes))
	@POOLGATE=$(BUILD)/poolgate UPDATE='$(UPDATE)' $(PYTHON) test/run --build $(BUILD) --only '$T' $@

inject-roundtrip:
	@tools/setup build test
	$(SUB) programs
	@POOLGATE=$(BUILD)/poolgate $(PYTHON) -B test/integration/roundtrip.py $(or $N,300) $(or $(SEED),1)

# The golden cases as files, for the tests of them that are written in C.
GOLDEN := build/golden/made
$(BUILD)/test/unit/test_golden_oom $(BUILD)/test/unit/test_answers: | $(GOLDEN)
$(GOLDEN): $(wildcard $(addprefix test/,golden/*.py golden/pods.json golden/*/* golden/*/*/* oracle/*.py lib/pods.py lib/reviews.py) \
	manifests/examples/*.yaml)
	$(call say,MAKE,$(@D))
	$Q$(PYTHON) -B test/golden/generate.py && touch $@

lint:
	@tools/setup build test lint
	$(SUB) objects
	@BUILD=$(BUILD) CPPFLAGS='$(ALL_CPPFLAGS) $(PROTO_CPPFLAGS)' test/lint/run

san: san-address san-thread

san-address:
	@tools/setup build test san
	$(SUB) SAN=address,undefined programs unit-programs fakes build/asan/test/gate/libcuda.so.1
	@POOLGATE=build/asan/poolgate test/san/asan build/asan

san-thread:
	@tools/setup build test san
	$(SUB) SAN=thread programs
	@POOLGATE=build/tsan/poolgate test/san/tsan

# The sources are compiled once more, by clang, with coverage feedback for the fuzzer.
FUZZ_SRC := $(sort $(wildcard test/fuzz/fuzz_*.c))
FUZZ_BIN := $(FUZZ_SRC:%.c=build/fuzz/%)

fuzz:
	@tools/setup build fuzz
	$(SUB) FUZZ=1 CC=$(CLANG) fuzz-programs
	@test/fuzz/run $(SECONDS) $(FUZZ_BIN)

# What was found so far, by this and by earlier runs of `make fuzz`, into the tree.
fuzz-grow:
	@tools/setup build fuzz
	$(SUB) FUZZ=1 CC=$(CLANG) fuzz-programs
	@test/fuzz/grow $(FUZZ_BIN)

fuzz-programs: $(FUZZ_BIN) ; @:

ifdef FUZZ
$(FUZZ_BIN): $(BUILD)/%: $(BUILD)/%.o $(LIB)
	$(call say,LD,$@)
	$Q$(CC) $(ALL_CFLAGS) -fsanitize=fuzzer $(ALL_LDFLAGS) -o $@ $< $(LIB) $(LIBS) $(DEVICE_LIBS)
-include $(wildcard $(FUZZ_BIN:=.d))
endif

bench-instructions:
	@tools/setup build test bench
	$(SUB) programs
	@POOLGATE=$(BUILD)/poolgate $(PYTHON) test/bench/instructions
	@POOLGATE=$(BUILD)/poolgate $(PYTHON) test/bench/footprint

footprint:
	@tools/setup build test
	$(SUB) programs
	@POOLGATE=$(BUILD)/poolgate $(PYTHON) test/bench/footprint

cover:
	@tools/setup build test
	@find build/cover -name '*.gcda' -delete 2>/dev/null || true
	$(SUB) COVER=1 programs unit-programs
	@POOLGATE=build/cover/poolgate $(PYTHON) test/run --build build/cover unit golden probe integration
	@test/lint/coverage build/cover

check: test lint san

size:
	@tools/size

# The picture that docs/design.md begins with.
house:
	@tools/house draw

graph:
	@tools/setup build
	$(SUB) objects
	@tools/house graph $(BUILD)

compdb:
	@tools/setup build
	$(SUB) objects
	@tools/compdb '$(subst ','\'',$(CC) $(ALL_CPPFLAGS) $(PROTO_CPPFLAGS) $(ALL_CFLAGS))' $(LIB_SRC) $(MAIN_SRC) \
		$(UNIT_SRC) $(UNIT_LIB_SRC) $(patsubst $(BUILD)/%.o,%.c,$(OOM_OBJ) $(CLOCK_OBJ))

clean:
	rm -rf build
