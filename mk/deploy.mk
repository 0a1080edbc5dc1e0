# SPDX-License-Identifier: Apache-2.0
# `make deploy`: builds the images, brings them to the cluster of kubectl's current context, and applies the manifests and the device plugin.

.PHONY: deploy

# A registry's names instead of those that the manifests ask for; tools/deploy writes the kustomization that says so.
DEPLOY_IMAGES = $(if $(REGISTRY),IMAGE='$(REGISTRY)/poolgate:$(VERSION)' DEVICE_IMAGE='$(REGISTRY)/$(DEVICE_TITLE):$(VERSION)')
DEPLOY = REGISTRY='$(REGISTRY)' BRING='$(BRING)' KUSTOMIZATION='$(KUSTOMIZATION)' tools/deploy

deploy:
	@$(DEPLOY) where
	+@$(MAKE) --no-print-directory $(DEPLOY_IMAGES) image device-plugin-image
	@$(DEPLOY) images $(IMAGE_OUT)/poolgate.oci.tar=$(REGISTRY)/poolgate:$(VERSION) \
		$(DEVICE_IMAGE_OUT)/$(DEVICE_TITLE).oci.tar=$(REGISTRY)/$(DEVICE_TITLE):$(VERSION)
	@$(DEPLOY) apply $(REGISTRY)/poolgate:$(VERSION) $(REGISTRY)/$(DEVICE_TITLE):$(VERSION)
