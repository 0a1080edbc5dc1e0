# SPDX-License-Identifier: Apache-2.0
# `make install`: the programs (poolgate as a plugin of kubectl, too), their manual pages and completions for bash; gpuprobe's report schema; services for systemd.
# gpuprobe itself is among them only where CUDA was there to build it.

INSTALL ?= install
MAN_SECTIONS = 1 5 8
UNITDIR ?= $(PREFIX)/lib/systemd/system
COMPLETIONS = $(DATADIR)/bash-completion/completions
# gpuprobe-serve completes as gpuprobe does.
COMPLETED = poolgate poolgate-device-plugin gpuprobe gpugate
COMPLETED_ALSO = gpuprobe-serve gpuprobe-shared
# The runtime is linked into gpuprobe, and its licence goes with it.
CUDA_LICENCE_NAME = cuda-runtime-license.txt
SERVICES = poolgate gpuprobe gpugate
INSTALLED = poolgate kubectl-poolgate poolgate-device-plugin gpuprobe-serve gpuprobe gpuprobe-shared gpugate

.PHONY: install uninstall

install: all
	$(INSTALL) -d $(DESTDIR)$(BINDIR) $(DESTDIR)$(COMPLETIONS) $(DESTDIR)$(DATADIR)/gpuprobe $(DESTDIR)$(UNITDIR)
	$(INSTALL) -m 755 $(PROGRAM) $(PROBE_SERVE) $(DEVICE_PLUGIN) $(GATE) $(if $(HAVE_CUDA),$(GPUPROBE)) $(DESTDIR)$(BINDIR)/
	ln -sf poolgate $(DESTDIR)$(BINDIR)/kubectl-poolgate
	$(INSTALL) -m 644 $(COMPLETED:%=share/bash-completion/%) $(DESTDIR)$(COMPLETIONS)/
	for n in $(COMPLETED_ALSO); do ln -sf gpuprobe $(DESTDIR)$(COMPLETIONS)/$$n; done
	$(foreach n,$(MAN_SECTIONS),$(if $(wildcard docs/man/*.$n),\
		$(INSTALL) -d $(DESTDIR)$(MANDIR)/man$n && \
		$(INSTALL) -m 644 $(wildcard docs/man/*.$n) $(DESTDIR)$(MANDIR)/man$n/ &&)) \
		ln -sf poolgate.1 $(DESTDIR)$(MANDIR)/man1/kubectl-poolgate.1
	$(INSTALL) -m 644 docs/gpuprobe-report.schema.json $(DESTDIR)$(DATADIR)/gpuprobe/report.schema.json
	$(if $(and $(HAVE_CUDA),$(CUDA_LICENCE)),$(INSTALL) -d $(DESTDIR)$(DATADIR)/doc/gpuprobe && \
		$(INSTALL) -m 644 $(CUDA_LICENCE) $(DESTDIR)$(DATADIR)/doc/gpuprobe/$(CUDA_LICENCE_NAME))
	for n in $(SERVICES); do \
		sed 's|/usr/bin/\(gpuprobe\|poolgate\|gpugate\)|$(BINDIR)/\1|g' share/systemd/$$n.service >$(DESTDIR)$(UNITDIR)/$$n.service && \
		chmod 644 $(DESTDIR)$(UNITDIR)/$$n.service || exit; \
	done

uninstall:
	rm -f $(INSTALLED:%=$(DESTDIR)$(BINDIR)/%)
	rm -f $(SERVICES:%=$(DESTDIR)$(UNITDIR)/%.service)
	rm -f $(foreach n,$(COMPLETED) $(COMPLETED_ALSO),$(DESTDIR)$(COMPLETIONS)/$n)
	rm -f $(DESTDIR)$(DATADIR)/doc/gpuprobe/$(CUDA_LICENCE_NAME) $(DESTDIR)$(DATADIR)/gpuprobe/report.schema.json
	rm -f $(DESTDIR)$(MANDIR)/man1/kubectl-poolgate.1
	rm -f $(foreach n,$(MAN_SECTIONS),$(patsubst docs/man/%,$(DESTDIR)$(MANDIR)/man$n/%,$(wildcard docs/man/*.$n)))
