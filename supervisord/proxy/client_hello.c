/* client_hello.c: RFC 8446, sections 4.1.2 and 5.1; RFC 6066, section 3. */
#include "proxy/client_hello.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define RECORD_HEAD 5u
#define RECORD_MAX (16u << 10)
#define HANDSHAKE 22
#define MESSAGE_CLIENT_HELLO 1
#define EXTENSION_SERVER_NAME 0

/* What is left to read; a read past its end makes it bad and gives zeros. */
struct bytes {
    const unsigned char *at;
    size_t left;
    bool bad;
};

static size_t number(struct bytes *bytes, unsigned count)
{
    size_t value = 0;

    if (bytes->left < count) {
        bytes->bad = true;
        bytes->left = 0;
        return 0;
    }
    for (unsigned i = 0; i < count; i++)
        value = value << 8 | bytes->at[i];
    bytes->at += count;
    bytes->left -= count;
    return value;
}

/* The next COUNT bytes on their own. */
static struct bytes part(struct bytes *bytes, size_t count)
{
    struct bytes taken = { bytes->at, count, false };

    if (bytes->left < count) {
        bytes->bad = true;
        taken.left = 0;
        taken.bad = true;
        return taken;
    }
    bytes->at += count;
    bytes->left -= count;
    return taken;
}

static void skip_vector(struct bytes *bytes, unsigned len_bytes)
{
    size_t len = number(bytes, len_bytes);

    part(bytes, len);
}

static enum client_hello read_name(struct bytes extension, char name[256])
{
    struct bytes list = part(&extension, number(&extension, 2));
    size_t type = number(&list, 1);
    struct bytes host = part(&list, number(&list, 2));

    /* One name of the only kind there is; more would have more than one reading. */
    if (extension.bad || extension.left > 0 || list.bad || list.left > 0 || host.bad || type != 0 ||
        host.left == 0 || host.left > 255 || memchr(host.at, '\0', host.left) != NULL)
        return CLIENT_HELLO_BAD;
    memcpy(name, host.at, host.left);
    name[host.left] = '\0';
    return CLIENT_HELLO_NAME;
}

static enum client_hello read_message(struct bytes message, char name[256])
{
    enum client_hello found = CLIENT_HELLO_NONE;
    struct bytes extensions;

    part(&message, 2 + 32); /* version and random */
    skip_vector(&message, 1);
    skip_vector(&message, 2);
    skip_vector(&message, 1);
    if (message.bad)
        return CLIENT_HELLO_BAD;
    if (message.left == 0)
        return CLIENT_HELLO_NONE;
    extensions = part(&message, number(&message, 2));
    while (extensions.left > 0 && !extensions.bad) {
        size_t type = number(&extensions, 2);
        struct bytes extension = part(&extensions, number(&extensions, 2));

        if (type != EXTENSION_SERVER_NAME || extension.bad)
            continue;
        if (found != CLIENT_HELLO_NONE)
            return CLIENT_HELLO_BAD;
        found = read_name(extension, name);
    }
    return message.bad || message.left > 0 || extensions.bad ? CLIENT_HELLO_BAD : found;
}

/* Joins the records' contents in TO, which has room for LEN. False when one is bad. */
static bool join(struct bytes *records, unsigned char *to, size_t *joined, bool *more)
{
    *joined = 0;
    while (records->left >= RECORD_HEAD && !*more) {
        size_t type = number(records, 1);
        size_t version = number(records, 2);
        size_t len = number(records, 2);

        if (type != HANDSHAKE || version >> 8 != 3 || len == 0 || len > RECORD_MAX)
            return false;
        *more = records->left < len;
        len = *more ? records->left : len;
        memcpy(to + *joined, records->at, len);
        part(records, len);
        *joined += len;
        if (*joined >= 4) {
            size_t whole = 4 + ((size_t)to[1] << 16 | (size_t)to[2] << 8 | to[3]);

            if (*joined >= whole)
                return true;
        }
    }
    *more = true;
    return true;
}

enum client_hello client_hello_read(const char *data, size_t len, char name[256])
{
    unsigned char joined[CLIENT_HELLO_MAX];
    struct bytes records = { (const unsigned char *)data, len, false };
    size_t joined_len;
    size_t whole;
    bool more = false;

    if (len == 0)
        return CLIENT_HELLO_MORE;
    if ((unsigned char)data[0] != HANDSHAKE)
        return CLIENT_HELLO_OTHER;
    if (len > CLIENT_HELLO_MAX)
        records.left = CLIENT_HELLO_MAX;
    if (!join(&records, joined, &joined_len, &more))
        return CLIENT_HELLO_BAD;
    if (joined_len > 0 && joined[0] != MESSAGE_CLIENT_HELLO)
        return CLIENT_HELLO_BAD;
    whole =
        joined_len >= 4 ? 4 + ((size_t)joined[1] << 16 | (size_t)joined[2] << 8 | joined[3]) : 0;
    if (whole > CLIENT_HELLO_MAX)
        return CLIENT_HELLO_BAD;
    if (joined_len < 4 || joined_len < whole)
        return len >= CLIENT_HELLO_MAX ? CLIENT_HELLO_BAD : CLIENT_HELLO_MORE;
    return read_message((struct bytes){ joined + 4, whole - 4, false }, name);
}
