/* tls.c: OpenSSL reads what arrives where it lies, to its end each time, and what it wants to send
 * is taken out of a memory BIO after each of its functions. */
#include "io/tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <strings.h>

#include "common/mem.h"
#include "common/str.h"

#define RECORD_MAX (16 << 10)
#define PLAIN_SIZE (128 << 10)   /* one read of a socket and what waited for it */
#define OUT_MAX (64 << 10)       /* what the BIO may hold before it is sent */
#define PENDING_MAX (256u << 10) /* written before the handshake is over */
#define NAME_SIZE 256
#define HANDSHAKE_RECORD 0x16

struct tls_context {
    SSL_CTX *ssl;
};

struct tls {
    struct stream *stream;
    SSL *ssl;
    BIO *out;          /* owned by SSL */
    const char *input; /* what arrived and OpenSSL has not taken; empty outside of on_data */
    size_t input_len;
    bool server;
    bool established;
    bool seen;  /* the peer's first byte */
    bool clear; /* which was no TLS */
    bool over;  /* the peer's end or an error was told */
    bool wrong_name;
    unsigned long error; /* of OpenSSL, why the connection failed */
    void (*on_ready)(void *data);
    void *ready_data;
    char name[NAME_SIZE];
    struct buf pending;
};

/* Scratch space, not state: filled right before it is passed on, by one connection at a time, since
 * what a socket gave is passed on from the loop only. */
static _Thread_local char plain[PLAIN_SIZE];

/* To the peer ----------------------------------------------------------------------------------
 */

static bool flush(struct tls *tls)
{
    char *bytes;
    long len = BIO_get_mem_data(tls->out, &bytes);
    bool ok;

    if (len <= 0)
        return true;
    ok = stream_write_raw(tls->stream, bytes, (size_t)len);
    (void)BIO_reset(tls->out);
    return ok;
}

/* Record by record; they leave together, but the BIO never holds much. */
static bool encrypt(struct tls *tls, const char *bytes, size_t len)
{
    bool ok = true;

    for (size_t at = 0; at < len && ok;) {
        size_t piece = len - at < RECORD_MAX ? len - at : RECORD_MAX;

        ERR_clear_error();
        ok = SSL_write(tls->ssl, bytes + at, (int)piece) == (int)piece;
        if (ok && BIO_ctrl_pending(tls->out) >= OUT_MAX)
            ok = flush(tls);
        at += piece;
    }
    return ok;
}

static bool on_write(void *data, const uv_buf_t *pieces, unsigned count)
{
    struct tls *tls = data;
    bool ok = true;

    for (unsigned i = 0; i < count; i++) {
        if (pieces[i].len == 0)
            continue;
        if (tls->clear)
            ok = stream_write_raw(tls->stream, pieces[i].base, pieces[i].len) && ok;
        else if (tls->established)
            ok = encrypt(tls, pieces[i].base, pieces[i].len) && ok;
        else
            buf_append(&tls->pending, pieces[i].base, pieces[i].len);
    }
    return flush(tls) && ok && !tls->pending.failed;
}

static void on_our_end(void *data)
{
    struct tls *tls = data;

    ERR_clear_error();
    if (tls->established && SSL_shutdown(tls->ssl) >= 0)
        flush(tls);
}

/* From the peer --------------------------------------------------------------------------------
 */

static const char *failure(const struct tls *tls)
{
    int reason = ERR_GET_REASON(tls->error);

    if (!tls->server)
        return "upstream_tls";
    if (tls->wrong_name)
        return "sni_mismatch";
    if (reason == SSL_R_TLSV1_ALERT_UNKNOWN_CA || reason == SSL_R_SSLV3_ALERT_BAD_CERTIFICATE ||
        reason == SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN)
        return "client_rejects_ca";
    return "tls_handshake";
}

static void tell_end(struct tls *tls, const struct error *err)
{
    if (tls->over)
        return;
    tls->over = true;
    stream_deliver_end(tls->stream, err);
}

static void fail(struct tls *tls)
{
    struct error err = ERROR_INIT;
    const char *reason = failure(tls);
    const char *text = ERR_reason_error_string(tls->error);
    long verified = SSL_get_verify_result(tls->ssl);

    flush(tls); /* the alert */
    if (!tls->server && verified != X509_V_OK)
        text = X509_verify_cert_error_string(verified);
    error_argument(&err, reason, "%s", text != NULL ? text : "TLS failed");
    ERR_clear_error();
    tell_end(tls, &err);
}

/* False when there is nothing more to do now. */
static bool shake_hands(struct tls *tls)
{
    int status;

    ERR_clear_error();
    status = SSL_do_handshake(tls->ssl);
    if (status != 1) {
        int why = SSL_get_error(tls->ssl, status);

        tls->error = ERR_peek_last_error();
        if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE)
            flush(tls);
        else
            fail(tls);
        return false;
    }
    tls->established = true;
    if (tls->pending.len > 0)
        encrypt(tls, tls->pending.data, tls->pending.len);
    buf_finish(&tls->pending);
    flush(tls);
    if (tls->on_ready != NULL)
        tls->on_ready(tls->ready_data);
    return !stream_is_closing(tls->stream);
}

/* As many records as there are in one piece. False when there is nothing more to do now. */
static bool decrypt(struct tls *tls)
{
    size_t len = 0;
    int status;
    int why;

    do {
        ERR_clear_error();
        status = SSL_read(tls->ssl, plain + len, (int)(sizeof(plain) - len));
        len += status > 0 ? (size_t)status : 0;
    } while (status > 0 && sizeof(plain) - len >= RECORD_MAX);
    why = status > 0 ? SSL_ERROR_NONE : SSL_get_error(tls->ssl, status);
    tls->error = ERR_peek_last_error();
    if (len > 0) {
        stream_deliver(tls->stream, plain, len);
        if (stream_is_closing(tls->stream) || tls->over)
            return false;
    }
    switch (why) {
    case SSL_ERROR_NONE:
        return true;
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
        flush(tls);
        return false;
    case SSL_ERROR_ZERO_RETURN:
        tell_end(tls, NULL);
        return false;
    default:
        fail(tls);
        return false;
    }
}

/* Everything that is there is passed on even when the reader pauses meanwhile: no more than one
 * read of the socket and a record. */
static void on_data(void *data, const char *bytes, size_t len)
{
    struct tls *tls = data;

    if (tls->server && !tls->seen)
        tls->clear = bytes[0] != HANDSHAKE_RECORD;
    tls->seen = true;
    if (tls->clear) {
        stream_deliver(tls->stream, bytes, len);
        return;
    }
    if (tls->over)
        return;
    tls->input = bytes;
    tls->input_len = len;
    if (tls->established || shake_hands(tls))
        while (decrypt(tls))
            ;
    /* OpenSSL keeps the part of a record by itself, so what is left is behind the end. */
    tls->input_len = 0;
}

/* An end that TLS did not announce may be somebody else's cut. */
static void on_end(void *data, const struct error *end)
{
    struct tls *tls = data;
    struct error err = ERROR_INIT;

    if (end != NULL || tls->clear) {
        tell_end(tls, end);
        return;
    }
    error_argument(&err,
                   tls->established ? "tls_cut"
                   : tls->server    ? "tls_handshake"
                                    : "upstream_tls",
                   "the peer went away without an end of TLS");
    tell_end(tls, &err);
}

static void tls_free(void *data)
{
    struct tls *tls = data;

    SSL_free(tls->ssl);
    buf_finish(&tls->pending);
    free(tls);
}

static const struct stream_filter filter = {
    .on_data = on_data,
    .on_end = on_end,
    .write = on_write,
    .end = on_our_end,
    .free = tls_free,
};

bool tls_is_secure(const struct stream *stream)
{
    const struct tls *tls = stream_filter_data(stream, &filter);

    return tls != NULL && !tls->clear;
}

void tls_when_ready(struct stream *stream, void (*on_ready)(void *data), void *data)
{
    struct tls *tls = stream_filter_data(stream, &filter);

    tls->on_ready = on_ready;
    tls->ready_data = data;
}

bool tls_has_rest(const struct stream *stream)
{
    const struct tls *tls = stream_filter_data(stream, &filter);

    return tls != NULL && SSL_has_pending(tls->ssl) == 1;
}

/* Contexts -------------------------------------------------------------------------------------
 */

/* A list of names, each behind a byte with its length. */
static bool offers_http(const unsigned char *list, unsigned len)
{
    for (unsigned at = 0; at < len; at += 1u + list[at])
        if (list[at] == 8 && len - at > 8 && memcmp(list + at + 1, "http/1.1", 8) == 0)
            return true;
    return false;
}

static int on_alpn(SSL *ssl, const unsigned char **out, unsigned char *out_len,
                   const unsigned char *offered, unsigned len, void *data)
{
    static const unsigned char http[] = "http/1.1";

    (void)ssl;
    (void)data;
    if (!offers_http(offered, len))
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *out = http;
    *out_len = sizeof(http) - 1;
    return SSL_TLSEXT_ERR_OK;
}

static int on_server_name(SSL *ssl, int *alert, void *data)
{
    struct tls *tls = SSL_get_app_data(ssl);
    const char *name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);

    (void)data;
    if (name == NULL || strcasecmp(name, tls->name) == 0)
        return SSL_TLSEXT_ERR_OK;
    tls->wrong_name = true;
    *alert = SSL_AD_UNRECOGNIZED_NAME;
    return SSL_TLSEXT_ERR_ALERT_FATAL;
}

static int context_new(struct tls_context **out, const SSL_METHOD *method, struct error *err)
{
    SSL_CTX *ssl = SSL_CTX_new(method);

    if (ssl == NULL)
        return error_set(err, ERR_LIMIT, 0, "no memory for TLS");
    SSL_CTX_set_min_proto_version(ssl, TLS1_2_VERSION);
    SSL_CTX_set_options(ssl, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_NO_TICKET |
                                 SSL_OP_CIPHER_SERVER_PREFERENCE);
    SSL_CTX_set_mode(ssl, SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_max_early_data(ssl, 0);
    *out = NEW(struct tls_context);
    (*out)->ssl = ssl;
    return 0;
}

int tls_server_context_new(struct tls_context **out, struct error *err)
{
    if (context_new(out, TLS_server_method(), err) < 0)
        return -1;
    SSL_CTX_set_num_tickets((*out)->ssl, 0);
    SSL_CTX_set_alpn_select_cb((*out)->ssl, on_alpn, NULL);
    SSL_CTX_set_tlsext_servername_callback((*out)->ssl, on_server_name);
    return 0;
}

int tls_client_context_new(struct tls_context **out, const char *ca_file, struct error *err)
{
    static const unsigned char http[] = "\x08http/1.1";

    if (context_new(out, TLS_client_method(), err) < 0)
        return -1;
    SSL_CTX_set_verify((*out)->ssl, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_alpn_protos((*out)->ssl, http, sizeof(http) - 1);
    if (SSL_CTX_set_default_verify_paths((*out)->ssl) == 1 &&
        (ca_file == NULL || SSL_CTX_load_verify_file((*out)->ssl, ca_file) == 1))
        return 0;
    tls_context_free(*out);
    *out = NULL;
    return error_set(err, ERR_UNAVAILABLE, 0, "the certificates in %s can't be read",
                     ca_file != NULL ? ca_file : "the system's folder");
}

void tls_context_free(struct tls_context *context)
{
    if (context == NULL)
        return;
    SSL_CTX_free(context->ssl);
    free(context);
}

/* Connections ----------------------------------------------------------------------------------
 */

static int input_read(BIO *bio, char *to, int size)
{
    struct tls *tls = BIO_get_data(bio);
    size_t len = (size_t)size < tls->input_len ? (size_t)size : tls->input_len;

    BIO_clear_retry_flags(bio);
    if (len == 0) {
        BIO_set_retry_read(bio);
        return -1;
    }
    memcpy(to, tls->input, len);
    tls->input += len;
    tls->input_len -= len;
    return (int)len;
}

static long input_ctrl(BIO *bio, int command, long number, void *pointer)
{
    const struct tls *tls = BIO_get_data(bio);

    (void)number;
    (void)pointer;
    return command == BIO_CTRL_PENDING ? (long)tls->input_len : command == BIO_CTRL_FLUSH;
}

/* Made once, for good. */
static const BIO_METHOD *input_method(void)
{
    static BIO_METHOD *method;

    if (method != NULL)
        return method;
    method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "bytes of a stream");
    if (method == NULL || BIO_meth_set_read(method, input_read) != 1 ||
        BIO_meth_set_ctrl(method, input_ctrl) != 1)
        BUG("no memory for TLS");
    return method;
}

static struct tls *tls_new(struct tls_context *context, const char *name, struct error *err)
{
    struct tls *tls = NEW(struct tls);
    BIO *in;

    buf_init(&tls->pending, PENDING_MAX);
    tls->ssl = SSL_new(context->ssl);
    if (tls->ssl == NULL || !str_copy(tls->name, sizeof(tls->name), name)) {
        error_set(err, ERR_LIMIT, 0, "no memory for TLS, or too long a name");
        tls_free(tls);
        return NULL;
    }
    in = BIO_new(input_method());
    tls->out = BIO_new(BIO_s_mem());
    if (in == NULL || tls->out == NULL)
        BUG("no memory for TLS");
    BIO_set_data(in, tls);
    BIO_set_init(in, 1);
    SSL_set_bio(tls->ssl, in, tls->out);
    SSL_set_app_data(tls->ssl, tls);
    return tls;
}

int tls_accept(struct stream *stream, struct tls_context *context, const char *name,
               const struct tls_identity *identity, struct error *err)
{
    struct tls *tls = tls_new(context, name, err);

    if (tls == NULL)
        return -1;
    tls->server = true;
    tls->stream = stream;
    SSL_set_accept_state(tls->ssl);
    if (SSL_use_certificate(tls->ssl, identity->certificate) != 1 ||
        SSL_use_PrivateKey(tls->ssl, identity->key) != 1 ||
        SSL_add1_chain_cert(tls->ssl, identity->issuer) != 1) {
        tls_free(tls);
        return error_set(err, ERR_BUG, 0, "the certificate for %s can't be used", name);
    }
    stream_set_filter(stream, &filter, tls);
    return 0;
}

static bool expect_name(struct tls *tls, bool literal)
{
    X509_VERIFY_PARAM *param = SSL_get0_param(tls->ssl);

    if (literal)
        return X509_VERIFY_PARAM_set1_ip_asc(param, tls->name) == 1;
    /* RFC 6125: a subject's common name is no host's name. */
    SSL_set_hostflags(tls->ssl,
                      X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
    return SSL_set1_host(tls->ssl, tls->name) == 1 &&
           SSL_set_tlsext_host_name(tls->ssl, tls->name) == 1;
}

int tls_connect(struct stream *stream, struct tls_context *context, const char *name, bool literal,
                struct error *err)
{
    struct tls *tls = tls_new(context, name, err);

    if (tls == NULL)
        return -1;
    tls->stream = stream;
    SSL_set_connect_state(tls->ssl);
    if (!expect_name(tls, literal)) {
        tls_free(tls);
        return error_set(err, ERR_INVALID, 0, "no certificate can be for %s", name);
    }
    stream_set_filter(stream, &filter, tls);
    shake_hands(tls);
    return 0;
}
