# SPDX-License-Identifier: Apache-2.0
# `make probe-image`: the image of gpuprobe in build/probe-image, and `make probe-image-check`: what it promises. FAKE=1, for tests only: an
# image of another name and folder, whose gpuprobe takes the fake runtime (it finds any GPU fit that a file makes up).

ifeq ($(FAKE),1)
PROBE_TITLE = gpuprobe-fake-for-tests
PROBE_IMAGE ?= localhost/$(PROBE_TITLE):$(VERSION)
PROBE_IMAGE_OUT ?= build/probe-image-fake
PROBE_IMAGE_FILES = $(PROBE_SERVE) $(PROBE_FAKE):/usr/bin/gpuprobe \
	$(foreach f,$(FAKE_CUDART) $(FAKE_NVML),$f:/usr/lib/gpuprobe-fakes/$(notdir $f))
PROBE_IMAGE_NEEDS = fakes
PROBE_IMAGE_STATIC =
else
PROBE_TITLE = gpuprobe
PROBE_IMAGE ?= $(call shipped_image,components/gpuprobe)
PROBE_IMAGE_OUT ?= build/probe-image
PROBE_IMAGE_FILES = $(PROBE_SERVE) $(BUILD)/gpuprobe
PROBE_IMAGE_NEEDS = $(PROBE_SERVE) $(BUILD)/gpuprobe
# Part of gpuprobe; NVIDIA's licence lets it be passed on in a program, with its text.
CUDA_LICENCE = $(firstword $(wildcard $(CUDA_HOME)/licenses/nvidia_cuda_runtime_cu12.txt $(CUDA_HOME)/EULA.txt $(CUDA_HOME)/LICENSE))
CUDA_VERSION = $(shell sed -n 's/^.define CUDART_VERSION *//p' $(CUDA_HOME)/include/cuda_runtime_api.h | \
	awk '{ printf "%d.%d", $$1 / 1000, $$1 % 1000 / 10 }')
PROBE_IMAGE_STATIC = cuda-cudart=$(CUDA_VERSION)=$(CUDA_LICENCE)
endif
# The C library loads libgcc_s to end a thread; the driver's come from the host, and so do other runtimes, if there are any.
PROBE_IMAGE_LOAD = libgcc_s.so.1
PROBE_IMAGE_HOST = libcuda.so.1 libnvidia-ml.so.1 libcudart.so.11 libcudart.so.12 libcudart.so.13

.PHONY: probe-image probe-image-check

ifeq ($(or $(HAVE_CUDA),$(filter 1,$(FAKE))),)
probe-image probe-image-check:
	@echo '$(CUDA_ADVICE)' >&2; exit 1
else
probe-image:
	@tools/setup build image
	$(SUB) $(PROBE_IMAGE_NEEDS)
	@TITLE='$(PROBE_TITLE)' CONTAINERFILE=Containerfile.gpuprobe LOAD='$(PROBE_IMAGE_LOAD)' HOST='$(PROBE_IMAGE_HOST)' \
		STATIC='$(PROBE_IMAGE_STATIC)' tools/image '$(PROBE_IMAGE_FILES)' '$(VERSION)' '$(PROBE_IMAGE)' '$(PROBE_IMAGE_OUT)'

probe-image-check: probe-image
	@MAKE='$(MAKE)' CC='$(CC)' CFLAGS='$(CFLAGS)' CPPFLAGS='$(CPPFLAGS)' LDFLAGS='$(LDFLAGS)' CUDA_HOME='$(abspath $(CUDA_HOME))' \
		$(PYTHON) test/image/run --of '$(PROBE_TITLE)' --image '$(PROBE_IMAGE)' --built '$(PROBE_IMAGE_OUT)' $(if $T,--only '$T')
endif
