# SPDX-License-Identifier: Apache-2.0
# poolgate-device-plugin: its program, and the kubelet's messages, whose C is made of deviceplugin/proto/*.proto. HTTP/2 and protobuf
# are linked into this program and into tests alone.

# Without `service` blocks: protoc-c makes a struct of them whose member `register` is no C. Included as <NAME.pb-c.h>.
$(PROTO_DIR)/%.pb-c.c $(PROTO_DIR)/%.pb-c.h: deviceplugin/proto/%.proto $(BUILD)/flags
	$(call say,PB,$<)
	$Qmkdir -p $(@D) && protoc-c --c_out=$(PROTO_DIR) --proto_path=deviceplugin/proto $<

# Not our code: none of our warnings.
$(PROTO_DIR)/%.o: $(PROTO_DIR)/%.c
	$(call say,CC,$<)
	$Q$(CC) $(ALL_CPPFLAGS) $(BASE_CFLAGS) $(CFLAGS) $(VARIANT_FLAGS) -w -c -o $@ $<

# Who may include them, and so must wait for them.
PROTO_USERS := $(filter-out $(PROTO_OBJ),$(filter $(BUILD)/deviceplugin/% $(BUILD)/test/unit/test_plugin%,$(LIB_OBJ) $(UNIT_OBJ) $(UNIT_LIB_OBJ))) \
	$(BUILD)/deviceplugin/main.o $(patsubst %.c,$(BUILD)/%.o,$(wildcard test/fuzz/fuzz_plugin*.c))
$(PROTO_USERS): $(PROTO_OBJ:.o=.h)
$(PROTO_USERS): private PART_CPPFLAGS = $(PROTO_CPPFLAGS)

# Plays the server itself.
$(BUILD)/test/unit/test_plugin: UNIT_LDFLAGS = -Wl,--wrap=grpc_stream_show

DEVICE_PLUGIN := $(if $(wildcard deviceplugin/main.c),$(BUILD)/poolgate-device-plugin)

ifneq ($(DEVICE_PLUGIN),)
$(DEVICE_PLUGIN): $(BUILD)/deviceplugin/main.o $(LIB) $(BUILD)/flags
	$(call say,LD,$@)
	$Q$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $(BUILD)/deviceplugin/main.o $(LIB) $(LIBS) $(DEVICE_LIBS)
programs: $(DEVICE_PLUGIN)
objects: $(BUILD)/deviceplugin/main.o
endif

-include $(BUILD)/deviceplugin/main.d
