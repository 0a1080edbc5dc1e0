# SPDX-License-Identifier: Apache-2.0
# `make dist`: the tree of the last commit as a tarball. `make deb`: Debian packages made of that tarball, in build/deb.
# `make deb-check`, as root: they pass lintian, and in a clean Debian 12 they are installed, answer a review, and are purged.

DIST_NAME = poolgate-$(VERSION)
DIST ?= build/dist/$(DIST_NAME).tar.gz
# What is packed.
REV ?= HEAD
DEB_OUT ?= build/deb

.PHONY: dist deb deb-check

dist:
	@tools/dist '$(DIST_NAME)' '$(DIST)' '$(REV)'
	@echo '$(DIST)'

deb: dist
	@tools/setup build deb
	@CC='$(CC)' CUDA_HOME='$(if $(HAVE_CUDA),$(abspath $(CUDA_HOME)))' tools/deb '$(DIST)' '$(DIST_NAME)' '$(DEB_OUT)'

deb-check: deb
	@tools/setup deb-check
	@test/deb/run '$(DEB_OUT)'
