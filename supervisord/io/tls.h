/* tls.h: TLS 1.2 and 1.3 on a stream, either side, with OpenSSL over memory: the stream's callbacks
 * and writes then carry what is inside. HTTP/1.1 is what is offered and taken by ALPN. */
#ifndef IO_TLS_H
#define IO_TLS_H

#include <stdbool.h>

#include "common/error.h"
#include "io/stream.h"

struct tls_context; /* what connections share */
struct x509_st;     /* OpenSSL's */
struct evp_pkey_st;

int tls_server_context_new(struct tls_context **out, struct error *err);
/* Peers are verified against the system's certificates and those in CA_FILE (NULL: none). Reading
 * them takes some 20 ms, once. */
int tls_client_context_new(struct tls_context **out, const char *ca_file, struct error *err);
void tls_context_free(struct tls_context *context);

/* A certificate with its key and the one that signed it; borrowed, references are taken. */
struct tls_identity {
    struct x509_st *certificate;
    struct x509_st *issuer;
    struct evp_pkey_st *key;
};
/* Answers as NAME: a client that asks for another one is refused. One that sends no TLS is served
 * in the clear, which tls_is_secure tells. on_end gets an error whose argument says why:
 * "client_rejects_ca", "sni_mismatch", "tls_handshake", "tls_cut" (no orderly end). */
int tls_accept(struct stream *stream, struct tls_context *context, const char *name,
               const struct tls_identity *identity, struct error *err);
/* The stream's peer speaks TLS, or has sent nothing yet. False without tls_accept or tls_connect.
 */
bool tls_is_secure(const struct stream *stream);
/* Asks for NAME (LITERAL: an address) and takes no other. What is written before the handshake is
 * over waits for it. on_end's error has the argument "upstream_tls" or "tls_cut". */
int tls_connect(struct stream *stream, struct tls_context *context, const char *name, bool literal,
                struct error *err);
/* ON_READY runs once, from the loop, when the handshake is over. Right after tls_connect. */
void tls_when_ready(struct stream *stream, void (*on_ready)(void *data), void *data);
/* Some bytes of a record came that is not whole yet, or wasn't read. */
bool tls_has_rest(const struct stream *stream);

#endif
