#include "proto/methods.h"

#include "common/str.h"

const struct method_info method_infos[METHOD_COUNT] = {
#define METHOD(symbol, method_name, method_flags, method_help)                                     \
    [METHOD_##symbol] = { .name = method_name, .flags = method_flags, .help = method_help },
#include "proto/methods.def"
#undef METHOD
};

enum method method_find(const char *name)
{
    int method = 0;

    while (method < METHOD_COUNT && !str_equal(method_infos[method].name, name))
        method++;
    return (enum method)method;
}
