# SPDX-License-Identifier: Apache-2.0
# `make soak`: a steady load whose every answer is checked, while connections die and everything is reloaded. `make faults`: what the
# program does when the machine or the client fails it.

MINUTES ?= 30
SOAK_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(wildcard test/faults/soak*.c))
SOAK_BIN := $(BUILD)/test/faults/soak

# Loaded into the program: one moves its time of day, the other tells what its heap has in use.
FAULT_LIBS := $(BUILD)/test/faults/clock.so $(BUILD)/test/faults/heap.so

# What `make test` runs of them already; with BESIDE_TEST=1 they are left out.
FAULT_UNITS := base_oom core_oom golden_oom kube_oom net_oom probe_report_oom queue_oom server_object_oom http_limits http_server http_tls
FAULT_CASES := test_hostile_tls or test_drain or test_too_big or test_chunked or test_content_length_lies or test_big_headers

.PHONY: soak faults faults-programs

faults-programs: $(SOAK_BIN) $(FAULT_LIBS) ; @:

$(FAULT_LIBS): $(BUILD)/test/faults/%.so: test/faults/%.c $(BUILD)/flags
	$(call say,LD,$@)
	$Qmkdir -p $(@D) && $(CC) $(PIC_CFLAGS) -pthread -shared -o $@ $<

$(SOAK_BIN): $(SOAK_OBJ) $(LIB) $(BUILD)/flags
	$(call say,LD,$@)
	$Q$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $(SOAK_OBJ) $(LIB) $(LIBS)

soak:
	@tools/setup build test
	$(SUB) programs faults-programs
	@POOLGATE=$(abspath $(BUILD))/poolgate SOAK_LOAD=$(abspath $(SOAK_BIN)) $(PYTHON) -B test/faults/soak --minutes $(MINUTES)

faults:
	@tools/setup build test
	$(SUB) programs faults-programs $(if $(BESIDE_TEST),,$(FAULT_UNITS:%=$(BUILD)/test/unit/test_%))
ifndef BESIDE_TEST
	@$(PYTHON) test/run --build $(BUILD) --only $(subst $() ,$(,),$(FAULT_UNITS)) unit
	@POOLGATE=$(BUILD)/poolgate $(PYTHON) test/run --build $(BUILD) --only '$(FAULT_CASES)' integration
endif
	@POOLGATE=$(BUILD)/poolgate $(PYTHON) test/run --build $(BUILD) --only '$T' faults

-include $(wildcard $(BUILD)/test/faults/*.d)
