// links: supervisor_proxy
/* A client's first bytes in a tunnel: once there is an answer, more bytes don't change it, and a
 * name is text. */
#include <stdint.h>
#include <string.h>

#include "common/mem.h"
#include "proxy/client_hello.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char name[256] = "";
    char whole_name[256] = "";
    enum client_hello whole = client_hello_read((const char *)data, size, whole_name);
    enum client_hello found = CLIENT_HELLO_MORE;

    for (size_t len = 0; len <= size && found == CLIENT_HELLO_MORE; len++)
        found = client_hello_read((const char *)data, len, name);
    BUG_ON(found != whole || strcmp(name, whole_name) != 0);
    BUG_ON(found == CLIENT_HELLO_NAME && (name[0] == '\0' || strlen(name) > 255));
    return 0;
}
