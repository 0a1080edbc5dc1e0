# SPDX-License-Identifier: Apache-2.0
# gpuprobe: its programs and tests. What needs CUDA is built only where CUDA is: `make cuda` fetches it into build/cuda, or
# CUDA_HOME names an installed toolkit (its NVRTC, headers and cudart are used; 12.8 or later).

# ---- without CUDA: the fake runtime, and the program over it -----------------------------------------------------

# The whole program over whatever runtime is loaded at run time: for tests with the fake runtime, and without kernels of its own.
PROBE_FAKE := $(if $(wildcard probe/main.c),$(BUILD)/gpuprobe-fake)
FAKE_CUDART := $(BUILD)/test/probe/libcudart-fake.so
FAKE_OLD := $(BUILD)/test/probe/libcudart-old.so
# An NVML, and one that lacks what drivers got after 2019.
FAKE_NVML := $(BUILD)/test/probe/libnvidia-ml-fake.so
FAKE_NVML_OLD := $(BUILD)/test/probe/libnvidia-ml-old.so
FAKES := $(FAKE_CUDART) $(FAKE_OLD) $(FAKE_NVML) $(FAKE_NVML_OLD)

# Never instrumented: it is loaded into programs of every variant.
PIC_CFLAGS = -std=gnu17 -O3 -g -fPIC -fvisibility=default -ffile-prefix-map=$(CURDIR)=. $(TEST_WARN) $(WERROR_FLAG)
FAKE_SRC := $(addprefix test/probe/fake_,calls.c core.c devices.c kernels.c memory.c scenario.c) \
	$(filter-out base/json/json_record%.c,$(wildcard base/json/json_*.c)) probe/result/evidence.c probe/check/exact_cpu.c \
	$(addprefix base/,arena.c base64.c buf.c err.c quantity.c text.c)
FAKE_OBJ := $(FAKE_SRC:%.c=$(BUILD)/pic/%.o)

$(BUILD)/pic/%.o: %.c $(BUILD)/flags
	$(call say,CC,$<)
	$Qmkdir -p $(@D) && $(CC) -iquote . $(PIC_CFLAGS) -MMD -MP -c -o $@ $<

# Defines the symbol versions of the real one.
$(FAKE_CUDART): $(FAKE_OBJ) test/probe/libcudart-fake.map
	$(call say,LD,$@)
	$Qmkdir -p $(@D) && $(CC) -shared -pthread -Wl,-soname,libcudart.so.12 -Wl,-z,defs \
		-Wl,--version-script,test/probe/libcudart-fake.map -o $@ $(FAKE_OBJ) -lm

$(FAKE_OLD): $(BUILD)/pic/test/probe/fake_old.o
	$(call say,LD,$@)
	$Qmkdir -p $(@D) && $(CC) -shared -o $@ $<

$(FAKE_NVML_OLD): private FAKE_NVML_CPPFLAGS = -DFAKE_NVML_OLD
$(FAKE_NVML) $(FAKE_NVML_OLD): test/probe/fake_nvml.c $(BUILD)/flags
	$(call say,LD,$@)
	$Qmkdir -p $(@D) && $(CC) $(PIC_CFLAGS) $(FAKE_NVML_CPPFLAGS) -shared -o $@ $<

-include $(wildcard $(FAKE_OBJ:.o=.d) $(BUILD)/pic/test/probe/fake_old.d $(BUILD)/probe/*.d $(BUILD)/probe/*/*.d $(BUILD)/test/probe/*.d)

.PHONY: fakes
fakes: $(FAKES) $(PROBE_FAKE) ; @:

unit-programs: fakes
$(filter $(BUILD)/test/unit/test_probe_%,$(UNIT_BIN)): | $(FAKES) $(PROBE_FAKE)

ifneq ($(PROBE_FAKE),)
$(PROBE_FAKE): $(BUILD)/probe/main.o $(LIB) $(BUILD)/flags
	$(call say,LD,$@)
	$Q$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $(BUILD)/probe/main.o $(LIB) $(LIBS) -lm -ldl
endif

# Serves what gpuprobe finds: a program of its own, since TLS takes libraries that a probe inside a pod may not have.
PROBE_SERVE := $(BUILD)/gpuprobe-serve
$(PROBE_SERVE): $(BUILD)/probe/serve/serve_main.o $(LIB) $(BUILD)/flags
	$(call say,LD,$@)
	$Q$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $(BUILD)/probe/serve/serve_main.o $(LIB) $(LIBS) -lm
fakes programs: $(PROBE_SERVE)

# The arithmetic that the GPU's is compared with, by other compilers and with other instructions.
.PHONY: probe-golden
probe-golden:
	@CLANG=$(CLANG) test/probe/golden

# Checks against the scenarios that make them fail; a check without one is an error.
.PHONY: probe-coverage
probe-coverage:
	@$(PYTHON) -B test/probe/coverage

# The reader of scenarios is none of the library's.
ifdef FUZZ
FUZZ_SCENARIO := $(BUILD)/test/fuzz/fuzz_probe_scenario
$(FUZZ_SCENARIO): $(BUILD)/test/probe/fake_scenario.o
$(FUZZ_SCENARIO): private LIB := $(BUILD)/test/probe/fake_scenario.o $(LIB)
endif

# ---- CUDA ---------------------------------------------------------------------------------------------------------

CUDA_HOME ?= build/cuda
HAVE_CUDA := $(and $(wildcard $(CUDA_HOME)/include/cuda_runtime_api.h),$(wildcard $(CUDA_HOME)/lib64/libcudart_static.a))

# Machine code for every generation from Maxwell on; PTX for what comes.
PROBE_ARCHS = 50 60 61 70 75 80 86 89 90 100 103 120 p120

.PHONY: cuda gpuprobe probe-check gpu-check
cuda:
	@tools/setup cuda
	@tools/cuda build/cuda

ifeq ($(HAVE_CUDA),)

CUDA_ADVICE = gpuprobe needs CUDA to build: `make cuda` fetches what it takes (130 MB), or say CUDA_HOME=/usr/local/cuda

gpuprobe probe-check gpu-check:
	@echo '$(CUDA_ADVICE)' >&2; exit 1

.PHONY: advise-cuda
advise-cuda: need-build
	@echo 'left out: $(CUDA_ADVICE)'
all: advise-cuda

else

KERNEL_COMPILER := $(BUILD)/probe/kernels/compile
KERNEL_IMAGES := $(BUILD)/probe/kernels/images
CUDA_OBJ := $(BUILD)/probe/runtime/rt_linked.o $(KERNEL_IMAGES).o
CUDA_SHARED_OBJ := $(BUILD)/probe/runtime/rt_linked_shared.o $(KERNEL_IMAGES).o
GPUPROBE := $(if $(wildcard probe/main.c),$(BUILD)/gpuprobe $(BUILD)/gpuprobe-shared)

# A program of the build: never instrumented.
$(KERNEL_COMPILER): probe/kernels/compile.c $(BUILD)/flags
	$(call say,LD,$@)
	$Qmkdir -p $(@D) && $(CC) -std=gnu17 -O1 -isystem $(CUDA_HOME)/include $(WARN) -o $@ $< \
		-L$(CUDA_HOME)/lib64 -lnvrtc -Wl,-rpath,$(abspath $(CUDA_HOME)/lib64)

$(KERNEL_IMAGES).c: $(KERNEL_COMPILER) probe/kernels/probe.cu $(wildcard probe/kernels/*.h)
	$(call say,NVRTC,$@)
	$Q$(KERNEL_COMPILER) probe/kernels/probe.cu $@ $(PROBE_ARCHS)

$(KERNEL_IMAGES).o: $(KERNEL_IMAGES).c
	$(call say,CC,$@)
	$Q$(CC) -iquote . $(BASE_CFLAGS) -c -o $@ $<

# Once for each way to link.
$(BUILD)/probe/runtime/rt_linked.o: RT_LINK = static
$(BUILD)/probe/runtime/rt_linked_shared.o: RT_LINK = shared
$(BUILD)/probe/runtime/rt_linked.o $(BUILD)/probe/runtime/rt_linked_shared.o: probe/runtime/rt_linked.c probe/runtime/rt.h probe/runtime/rt_calls.h $(BUILD)/flags
	$(call say,CC,$@)
	$Qmkdir -p $(@D) && $(CC) $(ALL_CPPFLAGS) -isystem $(CUDA_HOME)/include -DRT_LINK='"$(RT_LINK)"' $(ALL_CFLAGS) -c -o $@ $<

# The objects before the archive replace two of its members: see rt_unlinked.c and kernel_none.c.
LINK_STATIC = $(LIB) $(CUDA_HOME)/lib64/libcudart_static.a $(LIBS) -lm -ldl -lrt
LINK_SHARED = $(LIB) -L$(CUDA_HOME)/lib64 -lcudart $(LIBS) -lm -ldl

$(BUILD)/gpuprobe: $(BUILD)/probe/main.o $(CUDA_OBJ) $(LIB) $(BUILD)/flags
	$(call say,LD,$@)
	$Q$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $(BUILD)/probe/main.o $(CUDA_OBJ) $(LINK_STATIC)

$(BUILD)/gpuprobe-shared: $(BUILD)/probe/main.o $(CUDA_SHARED_OBJ) $(LIB) $(BUILD)/flags
	$(call say,LD,$@)
	$Q$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $(BUILD)/probe/main.o $(CUDA_SHARED_OBJ) $(LINK_SHARED)

# What only says what the runtime says: shows that both ways to link work, without main.c.
RT_HELLO := $(BUILD)/test/probe/rt_hello $(BUILD)/test/probe/rt_hello-shared
$(BUILD)/test/probe/rt_hello: $(BUILD)/test/probe/rt_hello.o $(CUDA_OBJ) $(LIB)
	$(call say,LD,$@)
	$Q$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $< $(CUDA_OBJ) $(LINK_STATIC)
$(BUILD)/test/probe/rt_hello-shared: $(BUILD)/test/probe/rt_hello.o $(CUDA_SHARED_OBJ) $(LIB)
	$(call say,LD,$@)
	$Q$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $< $(CUDA_SHARED_OBJ) $(LINK_SHARED)

.PHONY: gpuprobe-programs
gpuprobe-programs: $(GPUPROBE) $(RT_HELLO) $(FAKES) ; @:
# Instrumented programs run over the fake.
ifeq ($(VARIANT),release)
programs: $(GPUPROBE)
endif

gpuprobe: need-build
	$(SUB) $(GPUPROBE)

# For a server with a GPU: kernels with lines of the source for compute-sanitizer, and PTX alone, which the driver compiles.
$(KERNEL_IMAGES)-lines.c: $(KERNEL_COMPILER) probe/kernels/probe.cu $(wildcard probe/kernels/*.h)
	$(call say,NVRTC,$@)
	$Q$(KERNEL_COMPILER) probe/kernels/probe.cu $@ -lineinfo $(PROBE_ARCHS)

$(KERNEL_IMAGES)-ptx.c: $(KERNEL_COMPILER) probe/kernels/probe.cu $(wildcard probe/kernels/*.h)
	$(call say,NVRTC,$@)
	$Q$(KERNEL_COMPILER) probe/kernels/probe.cu $@ p75

$(KERNEL_IMAGES)-lines.o $(KERNEL_IMAGES)-ptx.o: %.o: %.c
	$(call say,CC,$@)
	$Q$(CC) -iquote . $(BASE_CFLAGS) -c -o $@ $<

$(BUILD)/gpuprobe-lines $(BUILD)/gpuprobe-ptx: $(BUILD)/gpuprobe-%: $(KERNEL_IMAGES)-%.o $(BUILD)/probe/main.o $(BUILD)/probe/runtime/rt_linked.o $(LIB) $(BUILD)/flags
	$(call say,LD,$@)
	$Q$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $(BUILD)/probe/main.o $(BUILD)/probe/runtime/rt_linked.o $< $(LINK_STATIC)

.PHONY: gpu-check-programs
gpu-check-programs: $(GPUPROBE) $(BUILD)/gpuprobe-lines $(BUILD)/gpuprobe-ptx ; @:

# On a server with a GPU: everything that no other test can show. About seven minutes; nothing of the GPU's state is changed.
gpu-check: need-build
	$(SUB) gpu-check-programs
	@CUDA_HOME=$(CUDA_HOME) $(PYTHON) -B test/probe/gpu_check --build $(BUILD)

# The images are for their architectures, both programs need what they may, and without a driver they say so at once.
probe-check:
	@tools/setup build test
	$(SUB) gpuprobe-programs
	@PROBE_BUILD=$(BUILD) CUDA_HOME=$(CUDA_HOME) $(PYTHON) -B -m pytest -q --no-header -p no:cacheprovider \
		test/probe/test_build.py test/probe/test_golden.py

endif
