/* token.h: run tokens: "sbx_" and 256 random bits as base64url. Worthless outside the sandbox; the
 * proxy keeps a hash. */
#ifndef PROXY_TOKEN_H
#define PROXY_TOKEN_H

#include <stdbool.h>
#include <stddef.h>

#define TOKEN_LEN 47u
#define TOKEN_HASH_BYTES 32u

struct token_hash {
    unsigned char bytes[TOKEN_HASH_BYTES];
};

/* Makes a token; TEXT gets TOKEN_LEN characters and a NUL. */
void token_make(char text[TOKEN_LEN + 1], struct token_hash *hash);
/* True when TEXT of LEN bytes is the token with that hash; constant time in the content. */
bool token_matches(const struct token_hash *hash, const char *text, size_t len);
/* True when TEXT holds anything that looks like a token of any run. */
bool token_occurs(const char *text, size_t len);
/* Overwrites everything that looks like one, all but its first four characters, with asterisks. */
void token_hide(char *text);

#endif
