/* SPDX-License-Identifier: Apache-2.0 */
/* A GPUServer object for tests of the core: read from text, written, read again. */
#ifndef TEST_UNIT_SERVER_FIXTURE_H
#define TEST_UNIT_SERVER_FIXTURE_H

#include "webhook/core/server/server_object.h"

/* Single quotes stand for double quotes. Two GPUs of 16000 MB listed by hand. */
#define SERVER_SPEC                                                                                \
	"'spec':{'address':'10.0.0.1:56001','gpus':[{'model':'V100','memory':'16G','count':2}]}"
#define SERVER_TEXT(metadata, spec, status)                                                        \
	"{'apiVersion':'poolgate.io/v1alpha1','kind':'GPUServer','metadata':{'name':'gpu-01',"     \
	"'uid':'u-1','resourceVersion':'7'," metadata "},'spec':" spec ",'status':" status "}"
#define SERVER_STATUS(status)                                                                      \
	"{'apiVersion':'poolgate.io/v1alpha1','kind':'GPUServer','metadata':{'name':'gpu-01',"     \
	"'uid':'u-1','resourceVersion':'7','generation':3,'finalizers':['x','poolgate.io/"         \
	"claims']}," SERVER_SPEC ",'status':" status "}"

struct server_fixture {
	struct arena arena;
	struct server_object o;
	struct buf out;
	struct err err;
};

void server_fixture_init(struct server_fixture *f);
void server_fixture_release(struct server_fixture *f);

/* Read the text into f->o. The result of server_object_read; a text that is no JSON fails the test.
 */
int server_fixture_read(struct server_fixture *f, const char *text);
/* The same; the test fails when it is refused. */
void server_fixture_load(struct server_fixture *f, const char *text);

/* Write f->o and return the text from its status on: {"version":… }. Lives until the next call. */
const char *server_fixture_status(struct server_fixture *f);

#endif
