# SPDX-License-Identifier: Apache-2.0
# poolgate-device-plugin: its program, and the kubelet's messages, whose C is made of deviceplugin/proto/*.proto. HTTP/2 and protobuf
# are linked into this program and into tests alone.

# Without `service` blocks: protoc-c makes a struct of them whose member `register` is no C. Included as <NAME.pb-c.h>.
$(PROTO_DIR)/%.pb-c.c $(PROTO_DIR)/%.pb-c.h: deviceplugin/proto/%.proto $(BUILD)/flags
	$(call say,PB,$<)
	$Qmkdir -p $(@D) && protoc-c --c_out=$(PROTO_DIR) --proto_path=deviceplugin/proto $<

# Not our code: none of our warnings. Its assertions name the file, which must not depend on the folder.
$(PROTO_DIR)/%.o: $(PROTO_DIR)/%.c
	$(call say,CC,$<)
	$Q$(CC) $(ALL_CPPFLAGS) $(BASE_CFLAGS) -ffile-prefix-map=$(PROTO_DIR)=deviceplugin/proto $(CFLAGS) $(VARIANT_FLAGS) -w -c -o $@ $<

# Who may include them, and so must wait for them.
PROTO_USERS := $(filter-out $(PROTO_OBJ),$(filter $(BUILD)/deviceplugin/% $(BUILD)/test/unit/test_plugin%,$(LIB_OBJ) $(UNIT_OBJ) $(UNIT_LIB_OBJ))) \
	$(BUILD)/deviceplugin/main.o $(patsubst %.c,$(BUILD)/%.o,$(wildcard test/fuzz/fuzz_plugin*.c))
$(PROTO_USERS): $(PROTO_OBJ:.o=.h)
$(PROTO_USERS): private PART_CPPFLAGS = $(PROTO_CPPFLAGS)

# They play the server themselves.
$(BUILD)/test/unit/test_plugin: UNIT_LDFLAGS = -Wl,--wrap=grpc_stream_show
$(BUILD)/test/unit/test_grpc_socket: UNIT_LDFLAGS = -Wl,--wrap=bind
POOL_WATCH_WRAP := -Wl,--wrap=getaddrinfo
$(BUILD)/test/unit/test_pool_watch: UNIT_LDFLAGS = $(POOL_WATCH_WRAP)
$(BUILD)/test/unit/test_plugin_oom: UNIT_LDFLAGS = -Wl,--wrap=grpc_stream_show $(OOM_WRAP:%=-Wl,--wrap=%)

DEVICE_PLUGIN := $(if $(wildcard deviceplugin/main.c),$(BUILD)/poolgate-device-plugin)

ifneq ($(DEVICE_PLUGIN),)
$(DEVICE_PLUGIN): $(BUILD)/deviceplugin/main.o $(LIB) $(BUILD)/flags
	$(call say,LD,$@)
	$Q$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $(BUILD)/deviceplugin/main.o $(LIB) $(LIBS) $(DEVICE_LIBS)
programs: $(DEVICE_PLUGIN)
objects: $(BUILD)/deviceplugin/main.o
endif

-include $(BUILD)/deviceplugin/main.d

# ---- `make device-plugin-image`: build/device-plugin-image, and device-plugin-image-check: what it promises -------------

DEVICE_TITLE = poolgate-device-plugin
DEVICE_IMAGE ?= $(call shipped_image,components/device-plugin)
DEVICE_IMAGE_OUT ?= build/device-plugin-image

.PHONY: device-plugin-image device-plugin-image-check

device-plugin-image:
	@tools/setup build image
	$(SUB) $(DEVICE_PLUGIN)
	@TITLE='$(DEVICE_TITLE)' CONTAINERFILE=Containerfile.device-plugin tools/image '$(DEVICE_PLUGIN)' '$(VERSION)' '$(DEVICE_IMAGE)' \
		'$(DEVICE_IMAGE_OUT)'

device-plugin-image-check: device-plugin-image
	@MAKE='$(MAKE)' CC='$(CC)' CFLAGS='$(CFLAGS)' CPPFLAGS='$(CPPFLAGS)' LDFLAGS='$(LDFLAGS)' \
		$(PYTHON) test/image/run --of '$(DEVICE_TITLE)' --image '$(DEVICE_IMAGE)' --built '$(DEVICE_IMAGE_OUT)' $(if $T,--only '$T')
