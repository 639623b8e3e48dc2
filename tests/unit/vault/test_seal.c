#include <string.h>

#include "common/mem.h"
#include "harness/test.h"
#include "vault/vault_internal.h"

static struct secret *key_of(char fill)
{
    char bytes[SEAL_KEY_SIZE];

    memset(bytes, fill, sizeof(bytes));
    return secret_new(bytes, sizeof(bytes));
}

TEST(what_was_sealed_is_unsealed_and_two_seals_differ)
{
    struct error err = ERROR_INIT;
    struct secret *key = key_of('k');
    AUTO_BUF struct buf one = { 0 };
    AUTO_BUF struct buf two = { 0 };
    size_t len;

    buf_init(&one, SEAL_MAX);
    buf_init(&two, SEAL_MAX);
    seal(key, "NAME", 0x0102030405060708, "v", 1, &one);
    seal(key, "NAME", 0x0102030405060708, "v", 1, &two);
    CHECK_EQ(one.len, (size_t)SEAL_HEAD_SIZE + 1 + SEAL_TAG_SIZE);
    CHECK(memcmp(one.data, two.data, one.len) != 0);
    CHECK_EQ(seal_time(one.data, one.len), 0x0102030405060708);
    struct secret *value = unseal(key, "NAME", one.data, one.len, &err);
    CHECK(value != NULL);
    CHECK_EQ(*secret_open(value, &len), 'v');
    CHECK_EQ(len, 1u);
    secret_shut(value);
    secret_unref(value);
    secret_unref(key);
}

TEST(other_key_name_or_version_is_refused_in_words)
{
    struct error err = ERROR_INIT;
    struct secret *key = key_of('k');
    struct secret *other = key_of('o');
    AUTO_BUF struct buf sealed = { 0 };

    buf_init(&sealed, SEAL_MAX);
    seal(key, "NAME", 5, "value", 5, &sealed);
    CHECK_EQ(unseal(other, "NAME", sealed.data, sealed.len, &err), NULL);
    CHECK_HAS(err.text, "another master key");
    CHECK_EQ((int)err.code, (int)ERR_SYSTEM);
    CHECK_EQ(unseal(key, "NAMES", sealed.data, sealed.len, &err), NULL);
    CHECK_HAS(err.text, "damaged");
    CHECK_EQ((int)err.code, (int)ERR_BUG);
    sealed.data[0] = 2;
    CHECK_EQ(unseal(key, "NAME", sealed.data, sealed.len, &err), NULL);
    CHECK_HAS(err.text, "unknown version 2");
    CHECK_EQ(seal_time(sealed.data, sealed.len), 0);
    CHECK_EQ(unseal(key, "NAME", "", 0, &err), NULL);
    CHECK_EQ(seal_time("", 0), 0);
    secret_unref(key);
    secret_unref(other);
}
