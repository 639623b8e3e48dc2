#include "common/base64.h"

#include <stdint.h>

#include "common/mem.h"

char *base64_encode(const void *data, size_t len)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const uint8_t *in = data;
    char *text = mem_new_zero((len + 2) / 3 * 4 + 1, 1);
    char *out = text;

    for (size_t i = 0; i < len; i += 3) {
        uint32_t word = (uint32_t)in[i] << 16;

        word |= i + 1 < len ? (uint32_t)in[i + 1] << 8 : 0;
        word |= i + 2 < len ? (uint32_t)in[i + 2] : 0;
        *out++ = digits[word >> 18 & 63];
        *out++ = digits[word >> 12 & 63];
        *out++ = i + 1 < len ? digits[word >> 6 & 63] : '=';
        *out++ = i + 2 < len ? digits[word & 63] : '=';
    }
    return text;
}
