/* ca.c: key and certificate lie in one sealed file, so that they always belong together. */
#include "vault/ca.h"

#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <string.h>

#include "common/list.h"
#include "common/log.h"
#include "common/mem.h"
#include "vault/ca_internal.h"

#define DAY INT64_C(86400)
#define CA_DAYS 3650
#define CA_RENEW_DAYS 30
#define LEAF_DAYS 7
#define LEAVES_MAX 256u
#define SEALED_NAME "ca"

struct leaf {
    struct list link; /* ca::leaves, the one used last at the end */
    char *name;
    X509 *certificate;
    int64_t until;
};

struct ca {
    const struct clock *clock;
    X509 *certificate;
    EVP_PKEY *key;
    EVP_PKEY *leaf_key; /* of all leaves; never stored */
    char *pem;
    struct list leaves;
    unsigned leaf_count;
};

static int64_t now(const struct ca *ca)
{
    return (int64_t)(clock_wall_ms(ca->clock) / 1000);
}

static void leaf_free(struct ca *ca, struct leaf *leaf)
{
    list_remove(&leaf->link);
    ca->leaf_count--;
    X509_free(leaf->certificate);
    free(leaf->name);
    free(leaf);
}

void ca_close(struct ca *ca)
{
    if (ca == NULL)
        return;
    while (!list_empty(&ca->leaves))
        leaf_free(ca, LIST_ENTRY(ca->leaves.next, struct leaf, link));
    X509_free(ca->certificate);
    EVP_PKEY_free(ca->key);
    EVP_PKEY_free(ca->leaf_key);
    free(ca->pem);
    free(ca);
}

/* Copies what BIO holds; heap. */
static char *bio_text(BIO *bio)
{
    char *data;
    long len = BIO_get_mem_data(bio, &data);

    return mem_strndup(data, (size_t)len);
}

static int save(struct ca *ca, struct vault *vault, struct error *err)
{
    BIO *bio = BIO_new(BIO_s_secmem());
    char *data;
    int status = -1;

    if (bio == NULL || PEM_write_bio_X509(bio, ca->certificate) != 1 ||
        PEM_write_bio_PrivateKey(bio, ca->key, NULL, NULL, 0, NULL, NULL) != 1) {
        error_set(err, ERR_BUG, 0, "the certificate authority can't be written");
    } else {
        long len = BIO_get_mem_data(bio, &data);

        status = vault_own_put(vault, SEALED_NAME, data, (size_t)len, err);
    }
    BIO_free(bio);
    return status;
}

static int make(struct ca *ca, struct vault *vault, struct error *err)
{
    struct leaf_options options = { .name = "sandbox-mcp",
                                    .from = now(ca) - DAY,
                                    .until = now(ca) + CA_DAYS * DAY };

    X509_free(ca->certificate);
    EVP_PKEY_free(ca->key);
    ca->certificate = NULL;
    ca->key = options.key = options.issuer_key = leaf_key_new();
    if (ca->key != NULL)
        ca->certificate = leaf_make(&options);
    if (ca->certificate == NULL)
        return error_set(err, ERR_UNAVAILABLE, 0, "OpenSSL can't make a certificate authority");
    return save(ca, vault, err);
}

static int read_sealed(struct ca *ca, struct secret *secret, struct error *err)
{
    size_t len;
    const char *text = secret_open(secret, &len);
    BIO *bio = BIO_new_mem_buf(text, (int)len);

    ca->certificate = bio != NULL ? PEM_read_bio_X509(bio, NULL, NULL, NULL) : NULL;
    ca->key = bio != NULL ? PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL) : NULL;
    BIO_free(bio);
    secret_shut(secret);
    if (ca->certificate == NULL || ca->key == NULL ||
        X509_check_private_key(ca->certificate, ca->key) != 1)
        return error_set(err, ERR_INVALID, 0, "the sealed certificate authority is damaged");
    return 0;
}

static bool ends_soon(const struct ca *ca)
{
    time_t limit = (time_t)(now(ca) + CA_RENEW_DAYS * DAY);

    return X509_cmp_time(X509_get0_notAfter(ca->certificate), &limit) <= 0;
}

static int load(struct ca *ca, struct vault *vault, struct error *err)
{
    struct error why = ERROR_INIT;
    struct secret *secret = vault_own_get(vault, SEALED_NAME, &why);
    int status;

    if (secret == NULL && why.code != ERR_NOT_FOUND) {
        *err = why;
        return -1;
    }
    if (secret == NULL)
        return make(ca, vault, err);
    status = read_sealed(ca, secret, err);
    secret_unref(secret);
    if (status == 0 && ends_soon(ca)) {
        log_info("ca", "the certificate authority is near its end and made anew");
        return make(ca, vault, err);
    }
    return status;
}

static int write_pem(struct ca *ca, struct error *err)
{
    BIO *bio = BIO_new(BIO_s_mem());

    if (bio != NULL && PEM_write_bio_X509(bio, ca->certificate) == 1)
        ca->pem = bio_text(bio);
    BIO_free(bio);
    return ca->pem != NULL ? 0 : error_set(err, ERR_BUG, 0, "the certificate can't be written");
}

int ca_open(struct ca **out, struct vault *vault, const struct clock *clock, struct error *err)
{
    struct ca *ca = NEW(struct ca);

    ca->clock = clock;
    list_init(&ca->leaves);
    ca->leaf_key = leaf_key_new();
    if (ca->leaf_key == NULL) {
        ca_close(ca);
        return error_set(err, ERR_UNAVAILABLE, 0, "OpenSSL can't make a key");
    }
    if (load(ca, vault, err) < 0 || write_pem(ca, err) < 0) {
        ca_close(ca);
        return error_wrap(err, "certificate authority");
    }
    *out = ca;
    return 0;
}

const char *ca_pem(const struct ca *ca)
{
    return ca->pem;
}

static struct leaf *find(struct ca *ca, const char *name)
{
    LIST_EACH(&ca->leaves, link) {
        struct leaf *leaf = LIST_ENTRY(link, struct leaf, link);

        if (strcmp(leaf->name, name) != 0)
            continue;
        if (leaf->until - now(ca) > DAY)
            return leaf;
        leaf_free(ca, leaf);
        return NULL;
    }
    return NULL;
}

static struct leaf *add(struct ca *ca, const char *name, bool literal)
{
    struct leaf_options options = { .name = name,
                                    .literal = literal,
                                    .key = ca->leaf_key,
                                    .issuer = ca->certificate,
                                    .issuer_key = ca->key,
                                    .from = now(ca) - DAY,
                                    .until = now(ca) + LEAF_DAYS * DAY };
    X509 *certificate = leaf_make(&options);
    struct leaf *leaf;

    if (certificate == NULL)
        return NULL;
    if (ca->leaf_count == LEAVES_MAX)
        leaf_free(ca, LIST_ENTRY(ca->leaves.next, struct leaf, link));
    leaf = NEW(struct leaf);
    leaf->name = mem_strdup(name);
    leaf->certificate = certificate;
    leaf->until = options.until;
    list_init(&leaf->link);
    ca->leaf_count++;
    return leaf;
}

int ca_leaf(struct ca *ca, const char *name, bool literal, struct ca_leaf *out, struct error *err)
{
    struct leaf *leaf = find(ca, name);

    if (leaf != NULL)
        list_remove(&leaf->link);
    else
        leaf = add(ca, name, literal);
    if (leaf == NULL)
        return error_set(err, ERR_INVALID, 0, "no certificate can be made for %s", name);
    list_append(&ca->leaves, &leaf->link);
    *out = (struct ca_leaf){ .certificate = leaf->certificate,
                             .issuer = ca->certificate,
                             .key = ca->leaf_key };
    return 0;
}
