# SPDX-License-Identifier: Apache-2.0
# gpuprobe: its programs and tests. What needs CUDA is built only where CUDA is (`make cuda`).

# The whole program over whatever runtime is loaded at run time: for tests with the fake runtime, and without kernels of its own.
PROBE_FAKE := $(BUILD)/gpuprobe-fake

ifneq ($(wildcard probe/main.c),)
$(PROBE_FAKE): $(BUILD)/probe/main.o $(LIB) $(BUILD)/flags
	$(call say,LD,$@)
	$Q$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $(BUILD)/probe/main.o $(LIB) $(LIBS) -lm -ldl
endif
