# SPDX-License-Identifier: Apache-2.0
# How things are compiled. SAN, COVER, FUZZ and MUTANTS choose a variant; each variant has its own folder under build/.

VARIANT = release
ifdef SAN
ifeq ($(filter-out thread,$(SAN)),)
VARIANT = tsan
else
VARIANT = $(if $(findstring address,$(SAN)),asan,san-$(subst $(,),-,$(SAN)))
endif
endif
ifdef COVER
VARIANT = cover
endif
ifdef FUZZ
VARIANT = fuzz
endif
ifdef MUTANTS
VARIANT = mutants$(if $(SAN),-san)
endif
BUILD = build/$(VARIANT)

, := ,
Q = $(if $(filter 1,$(V)),,@)
say = $(if $(filter 1,$(V)),,@printf '  %-4s %s\n' '$1' '$(patsubst $(BUILD)/%,%,$2)')

# No pkg-config yet (nothing is installed) must not break `make help` or the set-up itself: errors surface when compiling.
# libcurl's headers only: net/http_client loads the library when it is needed.
PKGS = libmicrohttpd gnutls libcrypto libcjson yaml-0.1
PKG_CFLAGS := $(patsubst -I%,-isystem%,$(shell $(PKG_CONFIG) --cflags $(PKGS) libcurl 2>/dev/null))
LIBS := $(shell $(PKG_CONFIG) --libs $(PKGS) 2>/dev/null)
# What the device plugin is linked with, and of it the gate.
DEVICE_LIBS := $(shell $(PKG_CONFIG) --libs libnghttp2 libprotobuf-c 2>/dev/null)
NGHTTP2_LIBS := $(shell $(PKG_CONFIG) --libs libnghttp2 2>/dev/null)
CMOCKA_LIBS := $(shell $(PKG_CONFIG) --libs cmocka 2>/dev/null)

IS_CLANG := $(findstring clang,$(shell $(CC) --version 2>/dev/null))
ARCH := $(shell uname -m)

WARN = -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wformat=2 -Wstrict-prototypes \
	-Wmissing-prototypes -Wold-style-definition -Wvla -Wundef -Wwrite-strings -Wcast-qual -Wpointer-arith \
	-Wnull-dereference -Wdouble-promotion -Wswitch-enum -Wimplicit-fallthrough -Wdate-time
# cmocka's macros convert pointers and integers as they like; tables of cases hold formats.
TEST_WARN = -Wall -Wextra -Wshadow -Wformat -Wstrict-prototypes -Wold-style-definition -Wvla -Wundef \
	-Wwrite-strings -Wpointer-arith -Wimplicit-fallthrough
ifeq ($(IS_CLANG),)
WARN += -Wduplicated-cond -Wduplicated-branches -Wlogical-op -Wjump-misses-init
endif
ifeq ($(VARIANT),release)
# Instrumented frames are larger, and their warnings come from the instrumentation.
WARN += -Wframe-larger-than=16384
WERROR_FLAG = $(if $(filter 1,$(WERROR)),-Werror)
endif

ifeq ($(VARIANT),release)
# It wants optimisation, and the caller may have chosen a level already.
ifeq ($(findstring _FORTIFY_SOURCE,$(CPPFLAGS) $(CFLAGS)),)
HARDEN_CPP = $(if $(filter -O1 -O2 -O3 -Os -Ofast,$(CFLAGS)),-D_FORTIFY_SOURCE=3)
endif
HARDEN = -fstack-protector-strong -fstack-clash-protection -fno-common -fPIE
ifeq ($(ARCH),x86_64)
HARDEN += -fcf-protection=full
endif
ifeq ($(IS_CLANG),)
HARDEN += -ftrivial-auto-var-init=zero
endif
HARDEN_LD = -pie -Wl,-z,relro,-z,now,-z,noexecstack
else
VARIANT_FLAGS = -fno-omit-frame-pointer -O1
endif

ifdef SAN
# Poisoning counts as reading what was not written yet.
VARIANT_FLAGS += -Wno-maybe-uninitialized -fsanitize=$(SAN) $(if $(findstring undefined,$(SAN)),-fno-sanitize-recover=all)
endif
ifdef COVER
VARIANT_FLAGS += --coverage -O0
endif
ifdef MUTANTS
VARIANT_FLAGS += -fPIC -g0
endif
ifdef FUZZ
VARIANT_FLAGS += -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all
endif

ALL_CPPFLAGS = -iquote . -DPOOLGATE_VERSION='"$(VERSION)"' $(HARDEN_CPP) $(PKG_CFLAGS) $(PART_CPPFLAGS) $(CPPFLAGS)
BASE_CFLAGS = -std=gnu17 -pthread -ffile-prefix-map=$(CURDIR)=. $(HARDEN)
# After the caller's CFLAGS comes only what makes the variant what it is.
ALL_CFLAGS = $(BASE_CFLAGS) $(WARN) $(WERROR_FLAG) $(CFLAGS) $(VARIANT_FLAGS)
TEST_CFLAGS = $(BASE_CFLAGS) $(TEST_WARN) $(WERROR_FLAG) $(CFLAGS) $(VARIANT_FLAGS)
ALL_LDFLAGS = -pthread -Wl,--as-needed $(HARDEN_LD) $(LDFLAGS)
