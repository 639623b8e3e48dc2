#include "vault/vault.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fd.h"
#include "common/mem.h"
#include "harness/test.h"
#include "harness/tmp.h"
#include "vault/vault_internal.h"

#define CHECK_CODE(call, expected)                                                                 \
    do {                                                                                           \
        err = (struct error)ERROR_INIT;                                                            \
        CHECK_EQ((call), -1);                                                                      \
        CHECK_EQ((int)err.code, (int)(expected));                                                  \
    } while (0)

static const char marker[] = "sk-marker-0123456789";

static struct vault *open_vault(void)
{
    struct error err = ERROR_INIT;
    struct vault_options options = { tmp_dir(), clock_system() };
    struct vault *vault = NULL;

    if (vault_open(&vault, &options, &err) < 0)
        CHECK_STR(err.text, "");
    return vault;
}

static void put(struct vault *vault, const char *name, const char *value)
{
    struct error err = ERROR_INIT;

    CHECK_EQ(vault_put(vault, name, value, strlen(value), NULL, &err), 0);
}

/* The secret's value must be EXPECTED; NULL: there must be none, with the text of why in ERR. */
static void check_value(struct vault *vault, const char *name, const char *expected,
                        struct error *err)
{
    struct secret *secret = vault_get(vault, name, err);

    CHECK_EQ(secret != NULL, expected != NULL);
    if (secret == NULL)
        return;
    size_t len;
    const char *value = secret_open(secret, &len);
    CHECK_EQ(len, strlen(expected));
    CHECK_EQ(memcmp(value, expected, len), 0);
    secret_shut(secret);
    secret_unref(secret);
}

TEST(names_are_capital_letters_digits_and_underscores)
{
    char name[66];

    CHECK(vault_name_valid("A"));
    CHECK(vault_name_valid("GITHUB_TOKEN_2"));
    CHECK(!vault_name_valid(""));
    CHECK(!vault_name_valid("2A"));
    CHECK(!vault_name_valid("_A"));
    CHECK(!vault_name_valid("a"));
    CHECK(!vault_name_valid("../A"));
    CHECK(!vault_name_valid("A.B"));
    memset(name, 'N', 65);
    name[65] = '\0';
    CHECK(!vault_name_valid(name));
    name[64] = '\0';
    CHECK(vault_name_valid(name));
}

TEST(a_stored_secret_survives_reopening_and_is_not_in_the_file)
{
    struct error err = ERROR_INIT;
    struct vault *vault = open_vault();
    bool replaced = true;
    char *file = NULL;
    size_t len;
    struct stat status;

    CHECK_EQ(vault_put(vault, "API_KEY", marker, strlen(marker), &replaced, &err), 0);
    CHECK(!replaced);
    check_value(vault, "API_KEY", marker, &err);
    vault_close(vault);
    vault = open_vault();
    CHECK(vault_has(vault, "API_KEY"));
    check_value(vault, "API_KEY", marker, &err);
    CHECK_EQ(vault_put(vault, "API_KEY", "other", 5, &replaced, &err), 0);
    CHECK(replaced);
    check_value(vault, "API_KEY", "other", &err);
    put(vault, "API_KEY", marker);
    CHECK_EQ(fd_read_file(tmp_path("vault/API_KEY"), SEAL_MAX, &file, &len, &err), 0);
    CHECK_EQ(memmem(file, len, marker, strlen(marker)), NULL);
    CHECK_EQ(memmem(file, len, "sk-mark", 7), NULL);
    free(file);
    CHECK_EQ(stat(tmp_path("vault/API_KEY"), &status), 0);
    CHECK_EQ(status.st_mode & 0777u, 0600u);
    CHECK_EQ(stat(tmp_path("vault.key"), &status), 0);
    CHECK_EQ(status.st_mode & 0777u, 0600u);
    CHECK_EQ(status.st_size, SEAL_KEY_SIZE);
    vault_close(vault);
    vault_close(NULL);
}

TEST(one_line_end_is_dropped_and_values_no_header_can_carry_are_refused)
{
    struct error err = ERROR_INIT;
    struct vault *vault = open_vault();
    AUTO_FREE
    char *large = mem_new_zero(1, SECRET_MAX + 2);

    memset(large, 'v', SECRET_MAX + 1);
    put(vault, "A", "value\n");
    check_value(vault, "A", "value", &err);
    put(vault, "A", "value\r\n");
    check_value(vault, "A", "value", &err);
    CHECK_CODE(vault_put(vault, "A", "value\n\n", 7, NULL, &err), ERR_INVALID);
    CHECK_CODE(vault_put(vault, "A", "va\rlue", 6, NULL, &err), ERR_INVALID);
    CHECK_CODE(vault_put(vault, "A", "va\0lue", 6, NULL, &err), ERR_INVALID);
    CHECK_CODE(vault_put(vault, "A", "", 0, NULL, &err), ERR_INVALID);
    CHECK_CODE(vault_put(vault, "A", "\n", 1, NULL, &err), ERR_INVALID);
    CHECK_CODE(vault_put(vault, "A", "\r\n", 2, NULL, &err), ERR_INVALID);
    CHECK_CODE(vault_put(vault, "A", large, SECRET_MAX + 1, NULL, &err), ERR_INVALID);
    CHECK_STR(err.argument, "value");
    CHECK_CODE(vault_put(vault, "a/b", "value", 5, NULL, &err), ERR_INVALID);
    CHECK_STR(err.argument, "name");
    check_value(vault, "A", "value", &err);
    large[SECRET_MAX] = '\0';
    put(vault, "A", large);
    check_value(vault, "A", large, &err);
    vault_close(vault);
}

TEST(a_file_changed_in_any_bit_is_refused_and_says_nothing_secret)
{
    struct error err = ERROR_INIT;
    struct vault *vault = open_vault();
    const char *path = tmp_path("vault/KEY");
    AUTO_FREE
    char *file = NULL;
    size_t len;

    put(vault, "KEY", marker);
    CHECK_EQ(fd_read_file(path, SEAL_MAX, &file, &len, &err), 0);
    for (size_t at = 0; at < len; at++) {
        for (int bit = 0; bit < 8; bit++) {
            file[at] = (char)(file[at] ^ 1 << bit);
            CHECK_EQ(fd_replace_file(path, file, len, 0600, &err), 0);
            err = (struct error)ERROR_INIT;
            CHECK_EQ(vault_get(vault, "KEY", &err), NULL);
            CHECK(err.code == ERR_BUG || err.code == ERR_SYSTEM);
            CHECK_HAS(err.text, "secret KEY: its file ");
            CHECK_EQ(strstr(err.text, "marker"), NULL);
            file[at] = (char)(file[at] ^ 1 << bit);
        }
    }
    CHECK_EQ(fd_replace_file(path, file, len, 0600, &err), 0);
    check_value(vault, "KEY", marker, &err);
    vault_close(vault);
}

static uint64_t now_ms;

static uint64_t read_now(const struct clock *clock)
{
    (void)clock;
    return now_ms;
}

TEST(what_others_do_to_a_file_is_seen_within_a_second)
{
    static const struct clock clock = { .wall_ms = read_now, .mono_ms = read_now };
    struct vault_options options = { tmp_dir(), &clock };
    struct error err = ERROR_INIT;
    struct vault *vault = NULL;

    now_ms = 5000;
    CHECK_EQ(vault_open(&vault, &options, &err), 0);
    put(vault, "KEY", "first");
    check_value(vault, "KEY", "first", &err);
    put(vault, "KEY", "second");
    check_value(vault, "KEY", "second", &err); /* its own change at once */
    CHECK_EQ(unlink(tmp_path("vault/KEY")), 0);
    now_ms += 999;
    check_value(vault, "KEY", "second", &err);
    now_ms += 1;
    check_value(vault, "KEY", NULL, &err);
    CHECK_EQ(err.code, ERR_NOT_FOUND);
    vault_close(vault);
}

TEST(a_file_cut_or_lengthened_is_refused)
{
    struct error err = ERROR_INIT;
    struct vault *vault = open_vault();
    const char *path = tmp_path("vault/KEY");
    AUTO_FREE
    char *file = NULL;
    AUTO_FREE
    char *large = mem_new_zero(1, 1 << 20);
    size_t len;

    put(vault, "KEY", marker);
    CHECK_EQ(fd_read_file(path, SEAL_MAX, &file, &len, &err), 0);
    for (size_t cut = 0; cut < len; cut++) {
        CHECK_EQ(fd_replace_file(path, file, cut, 0600, &err), 0);
        check_value(vault, "KEY", NULL, &err);
    }
    memcpy(large, file, len);
    CHECK_EQ(fd_replace_file(path, large, len + 1, 0600, &err), 0);
    check_value(vault, "KEY", NULL, &err);
    CHECK_EQ(fd_replace_file(path, large, 1 << 20, 0600, &err), 0);
    check_value(vault, "KEY", NULL, &err);
    vault_close(vault);
}

TEST(a_file_under_another_name_is_refused)
{
    struct error err = ERROR_INIT;
    struct vault *vault = open_vault();

    put(vault, "CHEAP", "one");
    put(vault, "DEAR", "two");
    CHECK_EQ(rename(tmp_path("vault/CHEAP"), tmp_path("vault/DEAR")), 0);
    check_value(vault, "DEAR", NULL, &err);
    CHECK_EQ((int)err.code, (int)ERR_BUG);
    vault_close(vault);
}

TEST(another_key_is_told_from_damage)
{
    struct error err = ERROR_INIT;
    struct vault *vault = open_vault();

    put(vault, "KEY", marker);
    vault_close(vault);
    CHECK_EQ(unlink(tmp_path("vault.key")), 0);
    vault = open_vault();
    check_value(vault, "KEY", NULL, &err);
    CHECK_HAS(err.text, "another master key");
    put(vault, "KEY", "new"); /* can be set again */
    check_value(vault, "KEY", "new", &err);
    vault_close(vault);
}

TEST(a_key_file_that_is_open_to_others_or_of_wrong_size_is_refused)
{
    struct error err = ERROR_INIT;
    struct vault_options options = { tmp_dir(), clock_system() };
    struct vault *vault = NULL;

    tmp_file("vault.key", "01234567890123456789012345678901", 32, 0640);
    CHECK_CODE(vault_open(&vault, &options, &err), ERR_DENIED);
    CHECK_HAS(err.text, "vault.key");
    CHECK_EQ(chmod(tmp_path("vault.key"), 0600), 0);
    CHECK_EQ(truncate(tmp_path("vault.key"), 31), 0);
    CHECK_CODE(vault_open(&vault, &options, &err), ERR_INVALID);
    CHECK_EQ(truncate(tmp_path("vault.key"), 33), 0);
    CHECK_CODE(vault_open(&vault, &options, &err), ERR_INVALID);
    CHECK_EQ(unlink(tmp_path("vault.key")), 0);
    tmp_subdir("vault.key");
    CHECK_CODE(vault_open(&vault, &options, &err), ERR_INVALID);
}

static void unset(void *name)
{
    unsetenv(name);
}

TEST(a_systemd_credential_is_the_key_when_there_is_one)
{
    static char variable[] = "CREDENTIALS_DIRECTORY";
    struct error err = ERROR_INIT;
    struct vault_options options = { tmp_dir(), clock_system() };
    struct vault *vault;

    test_defer(unset, variable);
    setenv(variable, tmp_subdir("credentials"), 1);
    tmp_file("credentials/sandbox-mcp-key", "a phrase of more than thirty-two bytes\n", 39, 0400);
    vault = open_vault();
    put(vault, "KEY", marker);
    vault_close(vault);
    CHECK(access(tmp_path("vault.key"), F_OK) < 0);
    vault = open_vault();
    check_value(vault, "KEY", marker, &err);
    vault_close(vault);
    unsetenv(variable);
    vault = open_vault();
    check_value(vault, "KEY", NULL, &err);
    vault_close(vault);
    setenv(variable, tmp_path("credentials"), 1);
    CHECK_EQ(unlink(tmp_path("credentials/sandbox-mcp-key")), 0);
    tmp_file("credentials/sandbox-mcp-key", "short", 5, 0400);
    CHECK_CODE(vault_open(&vault, &options, &err), ERR_INVALID);
}

TEST(a_variable_is_taken_wiped_and_second_to_what_is_stored)
{
    struct error err = ERROR_INIT;
    struct vault *vault = open_vault();

    setenv("TEST_VAULT_KEY", marker, 1);
    const char *in_place = getenv("TEST_VAULT_KEY");
    char before = in_place[0];
    vault_take_environment(vault, "TEST_VAULT_KEY");
    CHECK_EQ(before, 's');
    CHECK_EQ(in_place[0], 0);
    CHECK_EQ(memcmp(in_place, "\0\0\0\0", 4), 0);
    CHECK_EQ(getenv("TEST_VAULT_KEY"), NULL);
    check_value(vault, "TEST_VAULT_KEY", marker, &err);
    CHECK(vault_has(vault, "TEST_VAULT_KEY"));
    CHECK(access(tmp_path("vault/TEST_VAULT_KEY"), F_OK) < 0);
    put(vault, "TEST_VAULT_KEY", "stored");
    check_value(vault, "TEST_VAULT_KEY", "stored", &err);
    setenv("TEST_VAULT_KEY", "bad\nvalue", 1);
    vault_take_environment(vault, "TEST_VAULT_KEY");
    CHECK_EQ(getenv("TEST_VAULT_KEY"), NULL);
    vault_take_environment(vault, "TEST_VAULT_UNSET");
    vault_take_environment(vault, "bad name");
    CHECK_EQ(vault_delete(vault, "TEST_VAULT_KEY", &err), 0);
    check_value(vault, "TEST_VAULT_KEY", NULL, &err);
    CHECK_EQ((int)err.code, (int)ERR_NOT_FOUND);
    vault_close(vault);
}

TEST(deleting_removes_the_file_and_what_is_not_there_is_not_found)
{
    struct error err = ERROR_INIT;
    struct vault *vault = open_vault();

    put(vault, "KEY", marker);
    struct secret *held = vault_get(vault, "KEY", &err);
    CHECK_EQ(vault_delete(vault, "KEY", &err), 0);
    CHECK(access(tmp_path("vault/KEY"), F_OK) < 0);
    CHECK(!vault_has(vault, "KEY"));
    CHECK(!vault_has(vault, "../vault.key"));
    CHECK_CODE(vault_delete(vault, "KEY", &err), ERR_NOT_FOUND);
    CHECK_CODE(vault_delete(vault, "../vault.key", &err), ERR_INVALID);
    CHECK_EQ(vault_get(vault, "KEY", &err), NULL);
    CHECK_EQ(vault_get(vault, "..", &err), NULL);
    CHECK_EQ((int)err.code, (int)ERR_INVALID);
    size_t len;
    CHECK_EQ(memcmp(secret_open(held, &len), marker, strlen(marker)), 0); /* a holder keeps it */
    secret_shut(held);
    secret_unref(held);
    vault_close(vault);
}

static void add_entry(void *data, const struct vault_entry *entry)
{
    char *text = data;
    size_t len = strlen(text);

    snprintf(text + len, 500 - len, "%s:%s%s ", entry->name, entry->source,
             entry->updated_ms > 1600000000000ull ? "" : ":no time");
}

TEST(the_list_is_in_the_order_of_names_and_opens_nothing)
{
    struct vault *vault = open_vault();
    char text[500] = "";

    vault_each(vault, add_entry, text);
    CHECK_STR(text, "");
    put(vault, "B", "1");
    put(vault, "C", "2");
    setenv("A", "3", 1);
    setenv("C", "4", 1);
    vault_take_environment(vault, "A");
    vault_take_environment(vault, "C");
    tmp_file("vault/.B.rest", "x", 1, 0600);
    tmp_file("vault/D", "x", 1, 0600);
    vault_each(vault, add_entry, text);
    CHECK_STR(text, "A:environment B:stored C:stored D:stored:no time ");
    vault_close(vault);
}
