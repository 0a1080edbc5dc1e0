# SPDX-License-Identifier: Apache-2.0
# `make arm64`: the programs for 64-bit ARM, cross-built with Debian's compiler against Debian's arm64 libraries, in build/arm64; `make
# arm64-check`: their unit tests, by qemu. gpuprobe's own program is not among them: it needs CUDA for that machine.

ARM64 = build/arm64
ARM64_ROOT = $(ARM64)/root
ARM64_PACKAGES = libc6-dev libmicrohttpd-dev libgnutls28-dev libssl-dev libcjson-dev libyaml-dev libnghttp2-dev libprotobuf-c-dev \
	libcurl4-gnutls-dev libcurl3-gnutls libcmocka-dev
ARM64_GNU = aarch64-linux-gnu
# The libraries lie in a root of their own: the machine's packages stay those of one architecture.
ARM64_MAKE = BUILD=$(ARM64) ARCH=aarch64 CUDA_HOME= AR=$(ARM64_GNU)-ar CC='$(ARM64_GNU)-gcc --sysroot=$(abspath $(ARM64_ROOT))' \
	PKG_CONFIG='env PKG_CONFIG_SYSROOT_DIR=$(abspath $(ARM64_ROOT)) PKG_CONFIG_LIBDIR=$(abspath $(ARM64_ROOT))/usr/lib/$(ARM64_GNU)/pkgconfig pkg-config'

# Its tunables are those that a test would start itself again with, which the emulator cannot.
ARM64_QEMU = qemu-aarch64 -L $(abspath $(ARM64_ROOT)) -E GLIBC_TUNABLES=glibc.malloc.tcache_count=0

.PHONY: arm64 arm64-check

arm64: $(ARM64_ROOT)
	$(SUB) $(ARM64_MAKE) programs

# Times are not held to here: who passes at the second try (CI=true) has passed.
arm64-check: $(ARM64_ROOT)
	$(SUB) $(ARM64_MAKE) programs unit-programs
	@rm -f $(ARM64)/unsteady
	@POOLGATE_UNDER_QEMU=1 UNSTEADY=$(ARM64)/unsteady $(PYTHON) test/run --build $(ARM64) --under '$(ARM64_QEMU)' --only '$T' unit

$(ARM64_ROOT): mk/arm64.mk
	@tools/setup build test arm64
	@rm -rf $@ && mkdir -p $(@D) && tools/debian-root $@ --variant=extract --architectures=arm64 --include='$(ARM64_PACKAGES)' 2>$@.log || \
		{ cat $@.log >&2; exit 1; }
	@touch $@
