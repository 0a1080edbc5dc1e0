# SPDX-License-Identifier: Apache-2.0
# gpugate: its program and its tests.

GATE := $(if $(wildcard gate/main.c),$(BUILD)/gpugate)

ifneq ($(GATE),)
$(GATE): $(BUILD)/gate/main.o $(LIB) $(BUILD)/flags
	$(call say,LD,$@)
	$Q$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $(BUILD)/gate/main.o $(LIB) $(LIBS) $(NGHTTP2_LIBS)
programs: $(GATE)
objects: $(BUILD)/gate/main.o
endif

-include $(BUILD)/gate/main.d

FAKE_CUDA := $(BUILD)/test/gate/libcuda.so.1
$(FAKE_CUDA): test/gate/fake_cuda.c test/probe/fake_present.h $(BUILD)/flags
	$(call say,LD,$@)
	$Qmkdir -p $(@D) && $(CC) -iquote . $(PIC_CFLAGS) -shared -Wl,-soname,libcuda.so.1 -o $@ $<

GATE_UNITS := $(patsubst test/unit/test_%.c,%,$(wildcard test/unit/test_gate_*.c))

.PHONY: gate-test

# The unit tests of gate/, then the real program between pods, an API server and a GPU server of ours.
gate-test:
	@tools/setup build test
	$(SUB) programs fakes $(FAKE_CUDA) $(FAULT_LIBS) $(GATE_UNITS:%=$(BUILD)/test/unit/test_%)
	@$(PYTHON) test/run --build $(BUILD) --only $(subst $(subst ,, ),$(,),$(GATE_UNITS)) unit
	@POOLGATE=$(BUILD)/poolgate $(PYTHON) test/run --build $(BUILD) --only '$T' gate

# On a server with a GPU: before NVIDIA's own driver, NVML and MPS. What it sees is printed.
.PHONY: gate-gpu-check
gate-gpu-check:
	@tools/setup build test
	$(SUB) programs
	@POOLGATE=$(BUILD)/poolgate $(PYTHON) -B -m pytest -q -s --no-header -p no:cacheprovider test/gate/gpu_check.py

# The latter over programs with ThreadSanitizer: ten minutes.
.PHONY: gate-thread

gate-thread:
	@tools/setup build test san
	$(SUB) SAN=thread programs fakes build/tsan/test/gate/libcuda.so.1
	@POOLGATE=build/tsan/poolgate test/san/gate-thread build/tsan '$T'

# Both ends of gpugate beside stunnel at both ends, with the same cipher; by address beside a bare splice loop: two minutes. T=tls, T=plain: one of them.
.PHONY: bench-gate

bench-gate:
	@tools/setup build test bench-gate
	$(SUB) programs bench-programs
	@POOLGATE=$(BUILD)/poolgate BENCH=$(abspath $(BUILD))/test/bench $(PYTHON) -B test/bench/gate $T

# ---- `make gate-image`: build/gate-image, and gate-image-check: what it promises ---------------------------------------

GATE_TITLE = gpugate
GATE_IMAGE ?= $(call shipped_image,components/gpugate)
GATE_IMAGE_OUT ?= build/gate-image

.PHONY: gate-image gate-image-check

gate-image:
	@tools/setup build image
	$(SUB) $(GATE)
	@TITLE='$(GATE_TITLE)' CONTAINERFILE=Containerfile.gpugate HOST='libcuda.so.1 libnvidia-ml.so.1' tools/image '$(GATE)' '$(VERSION)' '$(GATE_IMAGE)' '$(GATE_IMAGE_OUT)'

gate-image-check: gate-image
	@MAKE='$(MAKE)' CC='$(CC)' CFLAGS='$(CFLAGS)' CPPFLAGS='$(CPPFLAGS)' LDFLAGS='$(LDFLAGS)' \
		$(PYTHON) test/image/run --of '$(GATE_TITLE)' --image '$(GATE_IMAGE)' --built '$(GATE_IMAGE_OUT)' $(if $T,--only '$T')
