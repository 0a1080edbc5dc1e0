# SPDX-License-Identifier: Apache-2.0
# gpuprobe without a GPU: its kernels, as PTX, on an interpreter with a CUDA runtime over it (test/ptx, C++17). `make ptx` builds it,
# `make probe-ptx` shows that the kernels compute what C computes, and which planted faults gpuprobe finds.

PTX := $(BUILD)/test/ptx
PTX_CUDART := $(PTX)/libcudart-ptx.so
PTX_PROGRAMS := $(PTX)/insns $(PTX)/equal
PTX_ARCHS = 50 60 70 75 80 90 100 120
PTX_TEXTS := $(PTX_ARCHS:%=$(PTX)/kernels/%.ptx)

CXX ?= g++
# The arithmetic is compared bit by bit: nothing is contracted, whole numbers wrap around. Runs where it was built.
PTX_CXXFLAGS = -std=gnu++17 -O3 -g -march=native -ffp-contract=off -fno-strict-aliasing -fwrapv -fPIC -Wall -Wextra -Wshadow \
	-ffile-prefix-map=$(CURDIR)=. $(WERROR_FLAG)
PTX_MAIN := test/ptx/insns.cc test/ptx/equal.cc
PTX_OBJ := $(patsubst %.cc,$(BUILD)/%.o,$(filter-out $(PTX_MAIN),$(wildcard test/ptx/*.cc)))
PTX_CXX = $(if $(findstring ccache,$(CC)),ccache )$(CXX)

.PHONY: ptx probe-ptx probe-ptx-all probe-mutants ptx-programs

$(BUILD)/test/ptx/%.o: test/ptx/%.cc $(BUILD)/flags
	$(call say,CXX,$<)
	$Qmkdir -p $(@D) && $(PTX_CXX) -iquote . $(PTX_CXXFLAGS) -MMD -MP -c -o $@ $<

$(PTX_CUDART): $(PTX_OBJ)
	$(call say,LD,$@)
	$Q$(CXX) -shared -Wl,-soname,libcudart.so.12 -Wl,-z,defs -o $@ $(PTX_OBJ)

$(PTX_PROGRAMS): $(PTX)/%: $(PTX)/%.o $(PTX_OBJ)
	$(call say,LD,$@)
	$Q$(CXX) -o $@ $^

-include $(wildcard $(PTX)/*.d)

ifeq ($(HAVE_CUDA),)

ptx probe-ptx probe-ptx-all probe-mutants:
	@echo '$(CUDA_ADVICE)' >&2; exit 1

else

# The text out of the array that the compiler of kernels writes.
$(PTX)/kernels/%.ptx: probe/kernels/probe.cu $(wildcard probe/kernels/*.h) $(KERNEL_COMPILER) test/ptx/text
	$(call say,PTX,$@)
	$Qmkdir -p $(@D) && $(KERNEL_COMPILER) $< $(@:.ptx=.c) p$* && $(PYTHON) -B test/ptx/text $(@:.ptx=.c) >$@

# `make probe-ptx gpuprobe-programs`: the make that `ptx` starts is through before this one looks at what it makes, too.
ifneq ($(filter ptx probe-ptx probe-ptx-all probe-mutants,$(MAKECMDGOALS)),)
$(LIB_OBJ) $(FAKE_OBJ) $(KERNEL_COMPILER) $(PTX_OBJ) $(BUILD)/probe/main.o $(BUILD)/probe/runtime/rt_linked.o $(BUILD)/probe/runtime/rt_linked_shared.o: | ptx
endif

ptx-programs: $(PTX_CUDART) $(PTX_PROGRAMS) $(PTX_TEXTS) ; @:

ptx: need-build
	@tools/setup ptx
	$(SUB) ptx-programs gpuprobe-programs $(BUILD)/gpuprobe-ptx

# Races are looked for where threads take turns at random, too.
probe-ptx: ptx
	@PTX_DEVICE="mem=64M" $(PTX)/insns
	@PTX_DEVICE="sms=3 mem=64M races=1" $(PTX)/equal $(filter %/50.ptx %/75.ptx %/120.ptx,$(PTX_TEXTS))
	@SEED=9 PTX_DEVICE="sms=5 mem=64M races=1 schedule=77 quantum=40" $(PTX)/equal $(PTX)/kernels/80.ptx
	@$(PYTHON) -B test/ptx/table.py --check
	@$(PYTHON) -B test/ptx/faults --build $(BUILD)

probe-ptx-all: ptx
	@PTX_DEVICE="mem=64M" $(PTX)/insns
	@PTX_DEVICE="sms=3 mem=64M races=1" $(PTX)/equal $(PTX_TEXTS)
	@SEED=9 PTX_DEVICE="sms=5 mem=64M races=1 schedule=77 quantum=40" $(PTX)/equal $(PTX_TEXTS)
	@$(PYTHON) -B test/ptx/table.py --check
	@$(PYTHON) -B test/ptx/faults --all --build $(BUILD)

# Which test notices a line that was changed, of all mutants of the kernels and of the judge, or of N of each. What was tried of this
# state of the sources is not tried again.
probe-mutants: ptx
	$(SUB) $(filter $(BUILD)/test/unit/test_probe_%,$(UNIT_BIN))
	@$(PYTHON) -B test/ptx/mutants kernels --build $(BUILD) $(if $(N),-n $(N)) --seed $(or $(SEED),1)
	@$(PYTHON) -B test/ptx/mutants judge --build $(BUILD) $(if $(N),-n $(N)) --seed $(or $(SEED),1)

endif
