# SPDX-License-Identifier: Apache-2.0
# `make install`: the program, its manual pages and the completion for bash.

INSTALL ?= install
MAN_SECTIONS = 1 5 8

.PHONY: install uninstall

install: all
	$(INSTALL) -d $(DESTDIR)$(BINDIR) $(DESTDIR)$(DATADIR)/bash-completion/completions
	$(INSTALL) -m 755 $(PROGRAM) $(DESTDIR)$(BINDIR)/poolgate
	$(INSTALL) -m 644 share/bash-completion/poolgate $(DESTDIR)$(DATADIR)/bash-completion/completions/poolgate
	$(foreach n,$(MAN_SECTIONS),$(if $(wildcard docs/man/*.$n),\
		$(INSTALL) -d $(DESTDIR)$(MANDIR)/man$n && \
		$(INSTALL) -m 644 $(wildcard docs/man/*.$n) $(DESTDIR)$(MANDIR)/man$n/ &&)) true

uninstall:
	rm -f $(DESTDIR)$(BINDIR)/poolgate $(DESTDIR)$(DATADIR)/bash-completion/completions/poolgate
	rm -f $(foreach n,$(MAN_SECTIONS),$(patsubst docs/man/%,$(DESTDIR)$(MANDIR)/man$n/%,$(wildcard docs/man/*.$n)))
