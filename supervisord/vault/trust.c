/* trust.c: the host's bundle is a text file that any tool may have written, so its size is bounded
 * and what is no certificate in it is left out of Java's store. */
#include "vault/trust.h"

#include <errno.h>
#include <limits.h>
#include <openssl/evp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/buf.h"
#include "common/fd.h"
#include "common/mem.h"

#define BUNDLE_MAX (8u << 20)
#define BEGIN "-----BEGIN CERTIFICATE-----"
#define END "-----END CERTIFICATE-----"
#define JKS_PASSWORD "changeit" /* of every Java's own store; it protects nothing */

static const char *const bundles[] = {
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
};
static const char *const java_stores[] = {
    "/etc/ssl/certs/java/cacerts",
    "/etc/pki/ca-trust/extracted/java/cacerts",
};

/* The first of PATHS that is a file, with links followed; heap or NULL. */
static char *find_file(const char *const *paths, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char real[PATH_MAX];
        struct stat status;

        if (realpath(paths[i], real) != NULL && stat(real, &status) == 0 && S_ISREG(status.st_mode))
            return mem_strdup(real);
    }
    return NULL;
}

static void append_number(struct buf *out, uint64_t number, unsigned bytes)
{
    for (unsigned i = bytes; i > 0; i--)
        buf_append_char(out, (char)(number >> (8 * (i - 1)) & 0xff));
}

static void append_text(struct buf *out, const char *text)
{
    append_number(out, strlen(text), 2);
    buf_append_str(out, text);
}

/* Base64 with line ends into bytes; false when it is none. */
static bool decode(const char *text, size_t len, struct buf *out)
{
    EVP_ENCODE_CTX *context = EVP_ENCODE_CTX_new();
    char *to = buf_reserve(out, len);
    int written = 0;
    int rest = 0;
    bool ok = context != NULL && to != NULL && len < INT_MAX;

    if (ok) {
        EVP_DecodeInit(context);
        ok = EVP_DecodeUpdate(context, (unsigned char *)to, &written, (const unsigned char *)text,
                              (int)len) >= 0 &&
             EVP_DecodeFinal(context, (unsigned char *)to + written, &rest) == 1;
    }
    EVP_ENCODE_CTX_free(context);
    if (ok)
        buf_commit(out, (size_t)(written + rest));
    return ok && written + rest > 0;
}

/* One trusted certificate of Java's own format. */
static void append_entry(struct buf *out, unsigned number, const struct buf *der)
{
    AUTO_FREE
    char *alias = mem_printf("certificate-%u", number);

    append_number(out, 2, 4);
    append_text(out, alias);
    append_number(out, 0, 8); /* made in 1970 */
    append_text(out, "X.509");
    append_number(out, der->len, 4);
    buf_append(out, der->data, der->len);
}

/* A SHA-1 over the password in UTF-16, a well-known phrase, and the store: it finds damage. */
static bool append_digest(struct buf *out)
{
    static const char phrase[] = "Mighty Aphrodite";
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    bool ok = context != NULL && EVP_DigestInit_ex(context, EVP_sha1(), NULL) == 1;

    for (const char *c = JKS_PASSWORD; ok && *c != '\0'; c++)
        ok = EVP_DigestUpdate(context, (char[2]){ 0, *c }, 2) == 1;
    ok = ok && EVP_DigestUpdate(context, phrase, sizeof(phrase) - 1) == 1 &&
         EVP_DigestUpdate(context, out->data, out->len) == 1 &&
         EVP_DigestFinal_ex(context, digest, &len) == 1;
    EVP_MD_CTX_free(context);
    if (ok)
        buf_append(out, digest, len);
    return ok;
}

static bool write_java(const char *pem, struct buf *out)
{
    AUTO_BUF struct buf entries = BUF_INIT(BUNDLE_MAX);
    unsigned count = 0;

    for (const char *at = strstr(pem, BEGIN); at != NULL; at = strstr(at, BEGIN)) {
        const char *text = at + strlen(BEGIN);
        const char *end = strstr(text, END);
        AUTO_BUF struct buf der = BUF_INIT(BUNDLE_MAX);

        if (end == NULL)
            break;
        if (decode(text, (size_t)(end - text), &der))
            append_entry(&entries, count++, &der);
        at = end;
    }
    append_number(out, 0xfeedfeed, 4);
    append_number(out, 2, 4);
    append_number(out, count, 4);
    buf_append(out, entries.data, entries.len);
    return !entries.failed && append_digest(out) && !out->failed;
}

/* Most starts find what the last one has written, and need not wait for the disk. */
static int replace_file(const char *path, const struct buf *content, struct error *err)
{
    struct error none = ERROR_INIT;
    AUTO_FREE
    char *before = NULL;
    size_t len;

    if (fd_read_file(path, BUNDLE_MAX, &before, &len, &none) == 0 && len == content->len &&
        memcmp(before, content->data, len) == 0)
        return 0;
    return fd_replace_file(path, content->data, content->len, 0644, err);
}

static int write_files(const struct trust *trust, const struct buf *own, const struct buf *bundle,
                       struct error *err)
{
    AUTO_BUF struct buf java = BUF_INIT(BUNDLE_MAX);
    AUTO_FREE
    char *ca = mem_printf("%s/ca.pem", trust->folder);

    if (!write_java(buf_text(bundle), &java))
        return error_set(err, ERR_LIMIT, 0, "the host's certificates are too many");
    if (replace_file(ca, own, err) < 0 || replace_file(trust->bundle, bundle, err) < 0)
        return -1;
    return replace_file(trust->java, &java, err);
}

/* PATH may be NULL. */
static int append_file(struct buf *bundle, const char *path, struct error *err)
{
    AUTO_FREE
    char *text = NULL;
    size_t len;

    if (path == NULL)
        return 0;
    if (fd_read_file(path, BUNDLE_MAX / 4, &text, &len, err) < 0)
        return -1;
    buf_append(bundle, text, len);
    buf_append_char(bundle, '\n');
    return 0;
}

/* Open to all: other users of this machine don't get through to it, and sandboxes may have one of
 * them. */
static int make_folder(const char *path, struct error *err)
{
    if ((mkdir(path, 0755) < 0 && errno != EEXIST) || chmod(path, 0755) < 0)
        return error_set(err, ERR_SYSTEM, errno, "make folder %s", path);
    return 0;
}

int trust_write(struct trust *trust, const char *state_dir, const char *ca_pem,
                const char *extra_file, struct error *err)
{
    AUTO_BUF struct buf bundle = BUF_INIT(BUNDLE_MAX);
    AUTO_BUF struct buf own = BUF_INIT(BUNDLE_MAX);

    buf_append_str(&own, ca_pem);
    *trust = (struct trust){ .folder = mem_printf("%s/trust", state_dir) };
    trust->bundle = mem_printf("%s/bundle.pem", trust->folder);
    trust->java = mem_printf("%s/cacerts.jks", trust->folder);
    trust->system_file = find_file(bundles, ARRAY_LEN(bundles));
    trust->java_file = find_file(java_stores, ARRAY_LEN(java_stores));
    if (append_file(&bundle, trust->system_file, err) == 0 &&
        append_file(&own, extra_file, err) == 0) {
        buf_append(&bundle, own.data, own.len);
        if (make_folder(trust->folder, err) == 0 && write_files(trust, &own, &bundle, err) == 0)
            return 0;
    }
    trust_finish(trust);
    return error_wrap(err, "certificates for sandboxes");
}

void trust_finish(struct trust *trust)
{
    free(trust->folder);
    free(trust->bundle);
    free(trust->java);
    free(trust->system_file);
    free(trust->java_file);
    *trust = (struct trust){ 0 };
}
