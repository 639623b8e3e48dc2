#include "proxy/token.h"

#include <sodium.h>
#include <string.h>

#include "harness/test.h"
#include "proxy/proxy.h"

TEST(a_token_matches_its_own_hash_only)
{
    char first[TOKEN_LEN + 1];
    char second[TOKEN_LEN + 1];
    struct token_hash one;
    struct token_hash two;

    CHECK(sodium_init() >= 0);
    CHECK_EQ(TOKEN_LEN + 1, PROXY_TOKEN_SIZE);
    token_make(first, &one);
    token_make(second, &two);
    CHECK_EQ(strlen(first), TOKEN_LEN);
    CHECK_EQ(strspn(first, "sbx_ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-"),
             TOKEN_LEN);
    CHECK(strcmp(first, second) != 0);
    CHECK(token_matches(&one, first, TOKEN_LEN));
    CHECK(!token_matches(&one, second, TOKEN_LEN));
    CHECK(!token_matches(&two, first, TOKEN_LEN));
    CHECK(!token_matches(&one, first, TOKEN_LEN - 1));
    CHECK(!token_matches(&one, "", 0));
    first[20] = (char)(first[20] == 'a' ? 'b' : 'a');
    CHECK(!token_matches(&one, first, TOKEN_LEN));
}

TEST(a_token_is_found_anywhere)
{
    char text[200];
    char token[TOKEN_LEN + 1];
    struct token_hash hash;

    token_make(token, &hash);
    CHECK(token_occurs(token, TOKEN_LEN));
    snprintf(text, sizeof(text), "a sbx_ sbx_sbx_%s more", token + 4);
    CHECK(token_occurs(text, strlen(text)));
    snprintf(text, sizeof(text), "sbx%s", token);
    CHECK(token_occurs(text, strlen(text)));
    token[TOKEN_LEN - 1] = '.';
    CHECK(!token_occurs(token, TOKEN_LEN));
    CHECK(!token_occurs("sbx_", 4));
    CHECK(!token_occurs("", 0));
}

TEST(a_hidden_token_can_be_used_by_nobody)
{
    char text[200];
    char token[TOKEN_LEN + 1];
    struct token_hash hash;

    token_make(token, &hash);
    snprintf(text, sizeof(text), "/a/%s/b/sbx_%s", token, token);
    token_hide(text);
    CHECK(!token_occurs(text, strlen(text)));
    CHECK(strstr(text, token + TOKEN_LEN - 4) == NULL);
    CHECK(strncmp(text, "/a/sbx_*", 8) == 0);
    CHECK_HAS(text, "*/b/sbx_*");
    snprintf(text, sizeof(text), "/a/sbx_short");
    token_hide(text);
    CHECK_STR(text, "/a/sbx_short");
    token_hide(NULL);
}
