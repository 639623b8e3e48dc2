/* ca_internal.h: making certificates. */
#ifndef VAULT_CA_INTERNAL_H
#define VAULT_CA_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

struct x509_st;
struct evp_pkey_st;

/* What a certificate is to say. */
struct leaf_options {
    const char *name; /* common name, and of a leaf the name that it is for */
    bool literal;     /* NAME is an address */
    struct evp_pkey_st *key;
    struct x509_st *issuer; /* NULL: it signs itself and is an authority */
    struct evp_pkey_st *issuer_key;
    int64_t from; /* seconds since 1970 */
    int64_t until;
};
/* NULL when OpenSSL fails. */
struct x509_st *leaf_make(const struct leaf_options *options);
struct evp_pkey_st *leaf_key_new(void);

#endif
