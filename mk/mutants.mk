# SPDX-License-Identifier: Apache-2.0
# What the tests would not notice: one small change of the sources at a time. The library is a shared one, so that a mutant costs a
# compilation and a link.

.PHONY: mutants sim-objects print-compiler print-objects print-unit-objects print-libraries print-oom print-pool-watch print-sim
mutants:
	@tools/setup build test fuzz
	$(SUB) MUTANTS=1 programs unit-programs sim-objects
	$(if $(QUICK),,$(SUB) MUTANTS=1 SAN=address,undefined unit-programs)
	$(if $(QUICK),,$(SUB) FUZZ=1 CC=$(CLANG) fuzz-programs)
	@$(PYTHON) -B test/mutants/run -n $(or $(N),400) --seed $(or $(SEED),1) $(if $(QUICK),--quick) $(if $(AGAIN),--again $(AGAIN)) $(if $(FILES),--files $(FILES))

sim-objects: $(SIM_OBJ) $(SIM_MORE_OBJ) ; @:

print-compiler:
	@echo '$(CC) $(subst ','\'',$(ALL_CPPFLAGS)) $(ALL_CFLAGS)'
print-objects:
	@echo $(LIB_OBJ)
print-unit-objects:
	@echo $(UNIT_LIB_OBJ)
print-oom:
	@echo $(OOM_WRAP:%=-Wl,--wrap=%) $(OOM_OBJ) $(if $(filter %/$(PROGRAM),$(CLOCK_BIN)),$(CLOCK_OBJ)) $(UNIT_LIB_OBJ) $(CMOCKA_LIBS)
print-pool-watch:
	@echo $(POOL_WATCH_WRAP) $(BUILD)/test/unit/test_pool_watch.o $(UNIT_LIB_OBJ) $(CMOCKA_LIBS)
print-sim:
	@echo $(SIM_WRAP:%=-Wl,--wrap=%) $(SIM_OBJ) $(SIM_MORE_OBJ) $(CMOCKA_LIBS)
print-libraries:
	@echo $(LIBS) $(DEVICE_LIBS) -lm -ldl

ifdef MUTANTS
$(BUILD)/libpoolgate.so: $(LIB_OBJ) $(BUILD)/flags
	$(call say,LD,$@)
	$Q$(CC) -shared -pthread -Wl,-soname,libpoolgate.so -o $@ $(LIB_OBJ) $(LIBS) $(DEVICE_LIBS) -lm -ldl
endif
