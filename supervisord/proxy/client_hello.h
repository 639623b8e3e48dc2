/* client_hello.h: the name that a client asks for in the first message of TLS, without taking part
 * in it. Pure. */
#ifndef PROXY_CLIENT_HELLO_H
#define PROXY_CLIENT_HELLO_H

#include <stddef.h>

#define CLIENT_HELLO_MAX (18u << 10) /* of bytes that are worth waiting for */

enum client_hello {
    CLIENT_HELLO_MORE,  /* it has not all come yet */
    CLIENT_HELLO_OTHER, /* this is no TLS */
    CLIENT_HELLO_NONE,  /* TLS without a name */
    CLIENT_HELLO_NAME,
    CLIENT_HELLO_BAD, /* it begins like TLS and is none, or is too long */
};

/* NAME is filled for CLIENT_HELLO_NAME; as sent, without a NUL inside. */
enum client_hello client_hello_read(const char *data, size_t len, char name[256]);

#endif
