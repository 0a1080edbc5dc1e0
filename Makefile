# SPDX-License-Identifier: Apache-2.0
# poolgate: `make help` lists what can be asked for. No configure step; libraries are found with pkg-config.

VERSION = 0.1.0

PREFIX ?= /usr/local
BINDIR ?= $(PREFIX)/bin
DATADIR ?= $(PREFIX)/share
MANDIR ?= $(DATADIR)/man
PKG_CONFIG ?= pkg-config
PYTHON = /usr/bin/python3
CLANG ?= clang-14

# What the caller may set; ours come before it, so that the caller's word is the last one.
ifeq ($(origin CC),default)
CC = gcc
endif
CFLAGS ?= -O3 -g
CPPFLAGS ?=
LDFLAGS ?=

include mk/flags.mk

# ---- sources, floor by floor -------------------------------------------------------------------------------------

FLOORS = base net kube certs webhook probe deviceplugin gate
# The probe's main program, and what needs CUDA's headers, are in mk/probe.mk; the device plugin's in mk/deviceplugin.mk,
# the gate's in mk/gate.mk.
LIB_SRC := $(sort $(filter-out webhook/main.c probe/main.c probe/serve/serve_main.c probe/runtime/rt_linked.c probe/kernels/% \
	deviceplugin/main.c gate/main.c,$(shell find $(FLOORS) -name '*.c')))
MAIN_SRC := $(wildcard webhook/main.c)
UNIT_SRC := $(sort $(wildcard test/unit/test_*.c))
# Helpers that several unit tests share; OOM_OBJ only those that make the n-th allocation fail.
OOM_OBJ := $(BUILD)/test/unit/oom_wrap.o $(BUILD)/test/unit/oom_nth.o
OOM_WRAP := malloc calloc realloc reallocarray strdup strndup arena_alloc arena_array arena_space arena_copy arena_strdup arena_slice
# Programs whose threads wait by the clock for seconds, and which start no other program: test/unit/virtual_clock.c.
CLOCK_OBJ := $(BUILD)/test/unit/virtual_clock.o
CLOCK_BIN := $(patsubst %,$(BUILD)/test/unit/test_%,adopt claims claims_address claims_caps claims_gang claims_place claims_queue \
	claims_show claims_unstarted cluster job_sizes kube kube_lease kube_watch leader ledger_kube ledger_kube_crowd ledger_kube_oom ledger_kube_uid \
	ledger_memory_time policy_accounts policy_keeper policy_look pool_keeper pool_watch quota_look secret_sync server_keeper servers \
	tls_secret usage_count usage_keeper virtual_clock waiting_look)
UNIT_LIB_SRC := $(sort $(filter-out $(UNIT_SRC) test/unit/oom_%.c test/unit/virtual_clock.c,$(wildcard test/unit/*.c)))

# C that is made of the kubelet's messages.
PROTO_DIR := $(BUILD)/deviceplugin/proto
PROTO_OBJ := $(patsubst deviceplugin/proto/%.proto,$(PROTO_DIR)/%.pb-c.o,$(wildcard deviceplugin/proto/*.proto))
PROTO_CPPFLAGS := -isystem $(PROTO_DIR)

# The page with the pool, as C.
PAGE_OBJ := $(BUILD)/share/page_html.o
# The completion for bash, as C.
COMPLETION_OBJ := $(BUILD)/share/completion_bash.o

LIB_OBJ := $(LIB_SRC:%.c=$(BUILD)/%.o) $(PROTO_OBJ) $(PAGE_OBJ) $(COMPLETION_OBJ)
MAIN_OBJ := $(MAIN_SRC:%.c=$(BUILD)/%.o)
UNIT_OBJ := $(UNIT_SRC:%.c=$(BUILD)/%.o)
UNIT_LIB_OBJ := $(UNIT_LIB_SRC:%.c=$(BUILD)/%.o)
LIB := $(BUILD)/libpoolgate.$(if $(MUTANTS),so,a)
UNIT_BIN := $(UNIT_SRC:%.c=$(BUILD)/%)
PROGRAM := $(BUILD)/poolgate

.PHONY: all programs unit-programs objects
.DELETE_ON_ERROR:
# Objects that only stand between a source and a program are kept.
.SECONDARY:

all: need-build
	$(SUB) programs

programs: $(PROGRAM) ; @:
unit-programs: $(UNIT_BIN) ; @:
objects: $(LIB_OBJ) $(MAIN_OBJ) ; @:

# `make all unit-programs`: the make that `all` starts is through before this one looks at what it makes, too.
ifneq ($(filter all,$(MAKECMDGOALS)),)
$(LIB_OBJ) $(LIB) $(UNIT_OBJ) $(UNIT_LIB_OBJ): | all
endif

$(PROGRAM): $(MAIN_OBJ) $(LIB) $(BUILD)/flags
	$(call say,LD,$@)
	$Q$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $(MAIN_OBJ) $(LIB) $(LIBS)

# Made anew each time, so that the object of a removed source does not live on in it.
$(BUILD)/libpoolgate.a: $(LIB_OBJ) $(BUILD)/flags
	$(call say,AR,$@)
	$Qrm -f $@ && $(AR) rcs $@ $(LIB_OBJ)

$(UNIT_BIN): $(BUILD)/test/unit/%: $(BUILD)/test/unit/%.o $(UNIT_LIB_OBJ) $(LIB)
	$(call say,LD,$@)
	$Q$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) $(UNIT_LDFLAGS) -o $@ $(filter %.o,$^) $(LIB) $(LIBS) $(DEVICE_LIBS) $(CMOCKA_LIBS) -lm

$(CLOCK_BIN): $(CLOCK_OBJ)
# One of its threads has a time of its own.
$(BUILD)/test/unit/test_ledger_kube_crowd: UNIT_LDFLAGS = -Wl,--wrap=clock_gettime

# Tests that make the n-th allocation fail.
$(filter %_oom,$(UNIT_BIN)): $(OOM_OBJ)
$(filter %_oom,$(UNIT_BIN)): UNIT_LDFLAGS = $(OOM_WRAP:%=-Wl,--wrap=%)
# It gives the lists itself.
$(BUILD)/test/unit/test_kube_oom: UNIT_LDFLAGS += -Wl,--wrap=kube_list

$(PAGE_OBJ:.o=.c): share/page.html tools/embed-page tools/embed-text
	@mkdir -p $(@D) && tools/embed-page $< >$@

$(COMPLETION_OBJ:.o=.c): share/bash-completion/poolgate tools/embed-text
	@mkdir -p $(@D) && tools/embed-text webhook/cli/completion.h completion_bash $< >$@

$(PAGE_OBJ) $(COMPLETION_OBJ): %.o: %.c $(BUILD)/flags
	$(call say,CC,$<)
	$Q$(CC) $(ALL_CPPFLAGS) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

$(BUILD)/test/%.o: test/%.c $(BUILD)/flags
	$(call say,CC,$<)
	$Qmkdir -p $(@D) && $(CC) $(ALL_CPPFLAGS) $(TEST_CFLAGS) -MMD -MP -c -o $@ $<

$(BUILD)/%.o: %.c $(BUILD)/flags
	$(call say,CC,$<)
	$Qmkdir -p $(@D) && $(CC) $(ALL_CPPFLAGS) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

# Changes when the flags or the set of sources do: then everything that was made with others is made again. Each make has a file of its own
# for what it compares, since two may run in one folder (.ci/run).
$(BUILD)/flags: FORCE
	@mkdir -p $(@D); new=$@.$$$$; printf '%s\n' '$(subst ','\'',$(CC) $(ALL_CPPFLAGS) $(ALL_CFLAGS) $(ALL_LDFLAGS) $(LIBS))' \
		>$$new; if cmp -s $$new $@; then rm -f $$new; else mv $$new $@; fi
.PHONY: FORCE
FORCE:

-include $(wildcard $(LIB_OBJ:.o=.d) $(MAIN_OBJ:.o=.d) $(UNIT_OBJ:.o=.d) $(UNIT_LIB_OBJ:.o=.d) $(OOM_OBJ:.o=.d) $(CLOCK_OBJ:.o=.d) \
	$(BUILD)/test/bench/*.d)

include mk/checks.mk
include mk/bench.mk
include mk/eyes.mk
include mk/faults.mk
include mk/install.mk
include mk/deb.mk
include mk/e2e.mk
include mk/doctor.mk
include mk/image.mk
include mk/probe.mk
include mk/ptx.mk
include mk/security.mk
include mk/registry.mk
include mk/sim.mk
include mk/mutants.mk
include mk/probe-image.mk
include mk/deviceplugin.mk
include mk/gate.mk
include mk/deploy.mk
include mk/release.mk
include mk/arm64.mk
