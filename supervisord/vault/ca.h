/* ca.h: the certificate authority of this installation, made once and kept sealed beside the
 * secrets. It signs for the names that sandboxes may reach, so that the proxy can look into their
 * TLS; only sandboxes are told to trust it. */
#ifndef VAULT_CA_H
#define VAULT_CA_H

#include <stdbool.h>

#include "common/clock.h"
#include "common/error.h"
#include "vault/vault.h"

struct ca;
struct x509_st; /* OpenSSL's */
struct evp_pkey_st;

/* Opens it, or makes it at first use and when less than 30 days of it are left. VAULT is not needed
 * afterwards; CLOCK is. */
int ca_open(struct ca **out, struct vault *vault, const struct clock *clock, struct error *err);
void ca_close(struct ca *ca);
/* Its certificate as PEM; owned by CA. */
const char *ca_pem(const struct ca *ca);

/* Owned by CA, and good until the next call of ca_leaf. */
struct ca_leaf {
    struct x509_st *certificate;
    struct x509_st *issuer;
    struct evp_pkey_st *key;
};
/* For NAME, or an address when LITERAL. The last few hundred are kept. */
int ca_leaf(struct ca *ca, const char *name, bool literal, struct ca_leaf *out, struct error *err);

#endif
