# SPDX-License-Identifier: Apache-2.0
# `make soak`: a steady load whose every answer is checked, while connections die and everything is reloaded. `make faults`: what the
# program does when the machine or the client fails it.

MINUTES ?= 30
SOAK_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(wildcard test/faults/soak*.c))
SOAK_BIN := $(BUILD)/test/faults/soak

.PHONY: soak faults-programs

faults-programs: $(SOAK_BIN) ; @:

$(SOAK_BIN): $(SOAK_OBJ) $(LIB) $(BUILD)/flags
	$(call say,LD,$@)
	$Q$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $(SOAK_OBJ) $(LIB) $(LIBS)

soak:
	@tools/setup build test
	$(SUB) programs faults-programs
	@POOLGATE=$(abspath $(BUILD))/poolgate SOAK_LOAD=$(abspath $(SOAK_BIN)) $(PYTHON) -B test/faults/soak --minutes $(MINUTES)

-include $(wildcard $(BUILD)/test/faults/*.d)
