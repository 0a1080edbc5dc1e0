# SPDX-License-Identifier: Apache-2.0
# `make image`: the container image in build/image, and `make image-check`: what it promises.

# The name that a kustomization of manifests/ asks for: it stands there alone, so that what is built is what is installed.
shipped_image = $(shell awk '$$1 == "newName:" { name = $$2 } $$1 == "newTag:" { print name ":" $$2 }' manifests/$1/kustomization.yaml)

IMAGE ?= $(call shipped_image,base)
IMAGE_OUT ?= build/image
# What the program loads by itself: net/http_client its libcurl, the C library what it ends a thread with.
IMAGE_LOAD = libcurl-gnutls.so.4 libgcc_s.so.1

.PHONY: image image-check

image:
	@tools/setup build image
	$(SUB) programs
	@LOAD='$(IMAGE_LOAD)' tools/image $(PROGRAM) '$(VERSION)' '$(IMAGE)' '$(IMAGE_OUT)'

image-check: image
	@MAKE='$(MAKE)' CC='$(CC)' CFLAGS='$(CFLAGS)' CPPFLAGS='$(CPPFLAGS)' LDFLAGS='$(LDFLAGS)' \
		$(PYTHON) test/image/run --image '$(IMAGE)' --built '$(IMAGE_OUT)' $(if $T,--only '$T')
