/* base64.h: RFC 4648 section 4, with padding. */
#ifndef COMMON_BASE64_H
#define COMMON_BASE64_H

#include <stddef.h>

/* On the heap; aborts when memory is out. */
char *base64_encode(const void *data, size_t len);

#endif
