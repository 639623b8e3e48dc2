/* internet.h: a small Internet for one test program: names are answered from a script, and public
 * addresses of the script lead to this machine. The program's own getaddrinfo, connect and
 * getpeername stand before the C library's, for libcurl and libuv too, so that nothing here asks a
 * real server for a name or connects to a real address. */
#ifndef TESTS_UNIT_PROXY_INTERNET_H
#define TESTS_UNIT_PROXY_INTERNET_H

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define INTERNET_PUBLIC "93.184.216.34" /* leads to loopback, at the same port */
#define INTERNET_ADDRESSES 128

struct internet_name {
    const char *name;
    const char *addresses[2][4]; /* of the first answer, and of all later ones if there are any */
    int error;                   /* EAI_…, instead */
    unsigned copies;             /* of the first address */
    bool silent;                 /* no answer before internet_speak() */
    unsigned asked;
};

static struct {
    struct internet_name *names;
    size_t count;
    unsigned strangers; /* names that nobody should ask for */
    unsigned escaped;   /* connections to addresses that are not of this machine */
    bool speaks;
    pthread_mutex_t lock;
    pthread_cond_t spoken;
} internet = { .lock = PTHREAD_MUTEX_INITIALIZER, .spoken = PTHREAD_COND_INITIALIZER };

#define INTERNET_EXPORT __attribute__((visibility("default")))

static struct internet_name *internet_find(const char *name)
{
    for (size_t i = 0; i < internet.count; i++)
        if (strcasecmp(internet.names[i].name, name) == 0)
            return &internet.names[i];
    return NULL;
}

/* In one piece, as freeaddrinfo expects it. */
static struct addrinfo *internet_entry(const char *address, uint16_t port, int type,
                                       struct addrinfo *next)
{
    struct addrinfo *entry = calloc(1, sizeof(*entry) + sizeof(struct sockaddr_in6));
    struct sockaddr_in *v4 = (void *)(entry + 1);
    struct sockaddr_in6 *v6 = (void *)(entry + 1);

    if (inet_pton(AF_INET, address, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = port;
        entry->ai_addrlen = sizeof(*v4);
    } else {
        inet_pton(AF_INET6, address, &v6->sin6_addr);
        v6->sin6_family = AF_INET6;
        v6->sin6_port = port;
        entry->ai_addrlen = sizeof(*v6);
    }
    entry->ai_addr = (void *)(entry + 1);
    entry->ai_family = entry->ai_addr->sa_family;
    entry->ai_socktype = type != 0 ? type : SOCK_STREAM;
    entry->ai_next = next;
    return entry;
}

static int internet_answer(const char *name, uint16_t port, int type, struct addrinfo **out)
{
    struct internet_name *found = internet_find(name);
    const char *const *addresses;
    unsigned char literal[16];

    *out = NULL;
    if (found == NULL &&
        (inet_pton(AF_INET, name, literal) == 1 || inet_pton(AF_INET6, name, literal) == 1)) {
        *out = internet_entry(name, port, type, NULL);
        return 0;
    }
    if (found == NULL) {
        internet.strangers++;
        return EAI_NONAME;
    }
    while (found->silent && !internet.speaks)
        pthread_cond_wait(&internet.spoken, &internet.lock);
    addresses = found->addresses[found->asked > 0 && found->addresses[1][0] != NULL ? 1 : 0];
    found->asked++;
    if (found->error != 0)
        return found->error;
    for (size_t i = 4; i-- > 0;)
        if (addresses[i] != NULL)
            *out = internet_entry(addresses[i], port, type, *out);
    for (unsigned i = 1; i < found->copies; i++)
        *out = internet_entry(addresses[0], port, type, *out);
    return 0;
}

INTERNET_EXPORT int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
                                struct addrinfo **out)
{
    uint16_t port = service != NULL ? htons((uint16_t)strtoul(service, NULL, 10)) : 0;
    int status;

    pthread_mutex_lock(&internet.lock);
    status = internet_answer(name != NULL ? name : "127.0.0.1", port,
                             hints != NULL ? hints->ai_socktype : 0, out);
    pthread_mutex_unlock(&internet.lock);
    return status;
}

static inline void internet_speak(void)
{
    pthread_mutex_lock(&internet.lock);
    internet.speaks = true;
    pthread_cond_broadcast(&internet.spoken);
    pthread_mutex_unlock(&internet.lock);
}

static inline bool internet_is_public(const struct sockaddr *address)
{
    struct sockaddr_in v4;
    struct in_addr public;

    if (address->sa_family != AF_INET)
        return false;
    memcpy(&v4, address, sizeof(v4));
    inet_pton(AF_INET, INTERNET_PUBLIC, &public);
    return v4.sin_addr.s_addr == public.s_addr;
}

static bool internet_moved[4096]; /* by descriptor: it leads to the public address */

INTERNET_EXPORT int connect(int fd, const struct sockaddr *address, socklen_t len)
{
    int (*real)(int, const struct sockaddr *, socklen_t);
    struct sockaddr_in v4;

    *(void **)&real = dlsym(RTLD_NEXT, "connect");
    if (fd >= 0 && fd < (int)sizeof(internet_moved))
        internet_moved[fd] = false;
    if (internet_is_public(address)) {
        memcpy(&v4, address, sizeof(v4));
        v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        internet_moved[fd] = true;
        return real(fd, (struct sockaddr *)&v4, sizeof(v4));
    }
    if (address->sa_family == AF_INET || address->sa_family == AF_INET6) {
        memcpy(&v4, address, sizeof(v4));
        if (address->sa_family == AF_INET6 || (ntohl(v4.sin_addr.s_addr) >> 24) != 127) {
            internet.escaped++;
            errno = EHOSTUNREACH;
            return -1;
        }
    }
    return real(fd, address, len);
}

INTERNET_EXPORT int getpeername(int fd, struct sockaddr *address, socklen_t *len)
{
    int (*real)(int, struct sockaddr *, socklen_t *);
    struct sockaddr_in v4;
    int status;

    *(void **)&real = dlsym(RTLD_NEXT, "getpeername");
    status = real(fd, address, len);
    if (status != 0 || fd < 0 || fd >= (int)sizeof(internet_moved) || !internet_moved[fd] ||
        *len < sizeof(v4))
        return status;
    memcpy(&v4, address, sizeof(v4));
    inet_pton(AF_INET, INTERNET_PUBLIC, &v4.sin_addr);
    memcpy(address, &v4, sizeof(v4));
    return 0;
}

#endif
