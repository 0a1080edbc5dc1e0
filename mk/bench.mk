# SPDX-License-Identifier: Apache-2.0
# `make bench-ledger`: the ledger in front of a real API server. Needs what `make e2e` needs, root too. `make bench`: see below.

BENCH_SRC := $(sort $(wildcard test/bench/*.c))
BENCH_BIN := $(BENCH_SRC:%.c=$(BUILD)/%)

.PHONY: bench-ledger bench-programs

bench-programs: $(BENCH_BIN) ; @:

$(BENCH_BIN): $(BUILD)/%: $(BUILD)/%.o $(LIB)
	$(call say,LD,$@)
	$Q$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $< $(LIB) $(LIBS)

bench-ledger:
	@test/e2e/build --check etcd kube-apiserver kubectl
	@[ "$$(id -u)" = 0 ] || { echo 'make bench-ledger: must run as root: it gives addresses to the loopback device' >&2; exit 1; }
	@tools/setup build test e2e
	$(SUB) programs bench-programs
	@test/e2e/build etcd kube-apiserver kubectl
	@POOLGATE=$(abspath $(BUILD))/poolgate BENCH=$(abspath $(BUILD))/test/bench $(PYTHON) -B test/bench/ledger $(if $T,--only '$T')

# The queue of waiting pods alone: 10,000 of them, 1,000 servers; ten seconds.
.PHONY: bench-queue

bench-queue:
	@tools/setup build
	$(SUB) bench-programs
	@$(BUILD)/test/bench/queue
	@uptime

# Reviews beside nginx and a Go webhook, on two cores; T=rate one part, QUICK=1 one short round. Without Go its rows are left out.
.PHONY: bench gates

bench:
	@tools/setup build test bench
	$(SUB) programs bench-programs
	@POOLGATE=$(BUILD)/poolgate BENCH=$(abspath $(BUILD))/test/bench $(PYTHON) -B test/bench/webhook $(if $T,--only '$T') \
		$(if $(QUICK),--quick) --json $(BUILD)/bench.json

# Instructions, system calls and silent handshakes against test/bench/gates.json: about two minutes, on a busy machine too.
gates:
	@tools/setup build test gates
	$(SUB) programs
	@POOLGATE=$(BUILD)/poolgate $(PYTHON) -B test/bench/gates $(if $(RECORD),--record)

# A replica, and the leader, in front of a large pool: a table, two minutes. SERVERS="100 1000": other sizes.
.PHONY: bench-scale pool-bench
POOL_BENCH := $(BUILD)/test/bench/scale/scale
POOL_BENCH_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(sort $(wildcard test/bench/scale/*.c))) $(BUILD)/test/unit/api_fixture.o $(BUILD)/test/unit/api_connection.o

$(POOL_BENCH): $(POOL_BENCH_OBJ) $(LIB)
	$(call say,LD,$@)
	$Q$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) $(patsubst %,-Wl$(,)--wrap=pthread_%,mutex_lock mutex_unlock cond_wait cond_timedwait) -o $@ $(POOL_BENCH_OBJ) $(LIB) $(LIBS)

pool-bench: $(POOL_BENCH) ; @:

bench-scale:
	@tools/setup build test
	$(SUB) pool-bench
	@$(POOL_BENCH) $(or $(SERVERS),100 1000 10000) | $(PYTHON) -B test/bench/scale/report

-include $(wildcard $(BUILD)/test/bench/scale/*.d)
