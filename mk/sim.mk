# SPDX-License-Identifier: Apache-2.0
# The simulator: the product's own objects, linked with threads, clocks and random numbers that follow a seed (test/sim/README.md).

.PHONY: sim sim-test sim-steady sim-faithful sim-record sim-mutants sim-exhaustive sim-program

SEEDS ?=
SEED ?=
FIRST ?= 1
SIM := $(BUILD)/test/sim/sim
SIM_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(sort $(wildcard test/sim/*.c)))
# What the product calls and the simulator answers; allocations of its own never fail.
SIM_WRAP := $(OOM_WRAP) pthread_create pthread_join pthread_setname_np pthread_mutex_init pthread_mutex_destroy pthread_mutex_lock \
	pthread_mutex_trylock pthread_mutex_unlock pthread_cond_init pthread_cond_destroy pthread_cond_signal pthread_cond_broadcast \
	pthread_cond_wait pthread_cond_timedwait pthread_once clock_gettime getrandom nanosleep queue_decide
comma := ,
$(SIM_OBJ): mk/sim.mk
$(SIM_OBJ): TEST_CFLAGS += $(foreach f,malloc calloc realloc strdup strndup,-D$f=__real_$f)
SIM_MORE_OBJ := $(patsubst %,$(BUILD)/test/unit/%.o,core_fixture test oom_wrap)
# It jumps from one stack to another, which fortified longjmp takes for a mistake.
$(BUILD)/test/sim/sim_sched.o: TEST_CFLAGS += -U_FORTIFY_SOURCE

SIM_LINK = $(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) $(SIM_WRAP:%=-Wl$(comma)--wrap=%) -o $(SIM) $(SIM_OBJ) $(SIM_MORE_OBJ) \
	$(LIB) $(LIBS) $(CMOCKA_LIBS)

$(SIM): $(SIM_OBJ) $(SIM_MORE_OBJ) $(LIB)
	$(call say,LD,$@)
	$Q$(SIM_LINK)

sim-program: $(SIM) ; @:

# SECONDS has a value for the fuzzer, too: only what the caller says counts.
sim:
	@tools/setup build test
	$(SUB) sim-program
ifneq ($(SEED),)
	@mkdir -p build/sim; $(SIM) --trace $(SEED) $(if $(PODS),--pods $(PODS)) $(if $(SALT),--salt $(SALT)) $(if $(SLIPS),--slips) $(if $(LEAN),--lean) $(if $(WITHOUT),--without $(WITHOUT)) >build/sim/$(SEED).trace || failed=1; tail -n 40 build/sim/$(SEED).trace | cut -c1-400; \
		echo 'the whole trace: build/sim/$(SEED).trace'; exit $${failed:-0}
else
	@$(SIM) --shrink --first $(FIRST) --jobs $(JOBS) $(if $(SLIPS),--slips) $(if $(LEAN),--lean) $(if $(SEEDS),--seeds $(SEEDS),--seconds $(SECONDS))
endif

sim-test:
	@tools/setup build test
	$(SUB) sim-program scale-program
	$(STEADY)
	@test/sim/run $(SIM) $(JOBS) $(if $(filter-out undefined file,$(origin SECONDS)),$(SECONDS),60)
	@$(SIM_SCALE) --servers 100 --pods 10000 --load 1.2 --watch-ms 500 --replicas 1,3 --twice

# What steady runs say, beside what they said when the files were written, one in each line, without memory running out, with it, and where
# places reach pods in another way; UPDATE=1 writes them, the first of SEEDS runs.
steady = $(SIM) --steady test/sim/$1.txt $2 --jobs $(JOBS) $(if $(UPDATE),--anew) --seeds \
	$(or $(and $(UPDATE),$3),$(shell wc -l <test/sim/$1.txt))
define STEADY
@$(call steady,steady,,$(SEEDS))
@$(call steady,steady_lean,--lean,100)
@$(call steady,steady_slips,--slips,30)
endef
sim-steady:
	@tools/setup build test
	$(SUB) sim-program
	$(STEADY)

# The model API server against recorded answers of a real one.
sim-faithful:
	@tools/setup build test
	$(SUB) sim-program
	@$(PYTHON) -B test/sim/faithful $(SIM)

# These recordings, from a real API server that is started for them. As root.
sim-record:
	@test/e2e/build --check
	@tools/setup build test e2e
	$(SUB) programs
	@test/e2e/build
	@POOLGATE=$(abspath $(BUILD))/poolgate $(PYTHON) -B test/e2e/record.py

# Every way that a small world can go, but for so many choices that are not the usual ones: first faults, then one of each, then switches.
sim-exhaustive:
	@tools/setup build test
	$(SUB) sim-program
	@failed=; for bounds in $(or $(BOUNDS),0+2 1+1 2+0); do echo "switches and faults: $$bounds"; \
		$(SIM) --small --jobs $(JOBS) --switches $${bounds%+*} --faults $${bounds#*+} || failed=1; done; exit $${failed:-0}

# A day of a large pool, with the product's placement: SERVERS=10000 PODS=1000000 is the whole one, some minutes for each number of replicas.
# WRITE=1 rewrites the tables and the picture of docs/simulation.md; BESIDE=FILE: a result that was kept is shown beside it, by replicas.
SIM_SCALE := $(BUILD)/test/sim/scale/scale
SIM_SCALE_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(sort $(wildcard test/sim/scale/*.c)))

$(SIM_SCALE): $(SIM_SCALE_OBJ) $(LIB)
	$(call say,LD,$@)
	$Q$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $(SIM_SCALE_OBJ) $(LIB) $(LIBS) -lm

.PHONY: sim-scale scale-program
scale-program: $(SIM_SCALE) ; @:

sim-scale:
	@tools/setup build test
	$(SUB) scale-program
	@$(SIM_SCALE) --json $(BUILD)/scale.json $(if $(SERVERS),--servers $(SERVERS)) $(if $(PODS),--pods $(PODS)) \
		$(if $(REPLICAS),--replicas $(REPLICAS)) $(if $(SEED),--seed $(SEED))
	@$(PYTHON) -B test/sim/scale/draw.py $(BUILD)/scale.json$(if $(BESIDE),$(,)$(BESIDE)) $(if $(WRITE),docs/img/scale.svg docs/simulation.md,$(BUILD)/scale.svg)

# Every rule's mutant, and faults of the past: each must be found. WRITE=1 rewrites their rows in docs/simulation.md.
sim-mutants:
	@tools/setup build test
	$(SUB) sim-program
	@SEEDS=$(SEEDS) JOBS=$(JOBS) T='$T' SMALL=$(SMALL) WRITE=$(if $(WRITE),docs/simulation.md) test/sim/mutate $(BUILD) \
		$(CC) $(ALL_CPPFLAGS) $(ALL_CFLAGS) -- $(SIM_LINK)

-include $(wildcard $(BUILD)/test/sim/*.d $(BUILD)/test/sim/scale/*.d)
