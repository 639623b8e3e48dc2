/* methods.h: the socket's methods, made from methods.def. */
#ifndef PROTO_METHODS_H
#define PROTO_METHODS_H

#define METHOD_BLOB 1u
#define METHOD_STREAM 2u
#define METHOD_READ 4u

enum method {
#define METHOD(symbol, name, flags, help) METHOD_##symbol,
#include "methods.def"
#undef METHOD
    METHOD_COUNT
};

struct method_info {
    const char *name;
    unsigned flags;
    const char *help;
};

extern const struct method_info method_infos[METHOD_COUNT];

/* The method, or METHOD_COUNT for an unknown name. */
enum method method_find(const char *name);

#endif
