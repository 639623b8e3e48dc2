/* model_request.h: what a model's request asks for, as far as it bears on its cost: which model,
 * and how long its answer may get. Of the body's JSON only the few members that say so are read,
 * and each of them only in its plain spelling: a request that may be read in two ways is not
 * understood. Pure. */
#ifndef PROXY_MODEL_REQUEST_H
#define PROXY_MODEL_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MODEL_NAME_MAX 200u

struct model_request {
    char model[MODEL_NAME_MAX]; /* "" none is named */
    uint64_t max_output;        /* of all answers together; 0: none is named */
};

/* PATH is below the service; some name the model there. False: it is not understood. */
bool model_request_read(const char *path, const char *body, size_t len, struct model_request *out);

#endif
