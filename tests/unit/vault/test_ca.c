#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <string.h>
#include <sys/stat.h>

#include "common/fd.h"
#include "common/mem.h"
#include "harness/test.h"
#include "harness/tmp.h"
#include "vault/ca.h"

struct turned_clock {
    struct clock clock;
    uint64_t ms;
};

static uint64_t turned_ms(const struct clock *clock)
{
    return ((const struct turned_clock *)clock)->ms;
}

static struct vault *open_vault(void)
{
    struct vault_options options = { .state_dir = tmp_dir(), .clock = clock_system() };
    struct vault *vault;
    struct error err = ERROR_INIT;

    CHECK_EQ(vault_open(&vault, &options, &err), 0);
    return vault;
}

static int verify(const struct ca_leaf *leaf, const char *name, bool literal)
{
    X509_STORE *store = X509_STORE_new();
    X509_STORE_CTX *context = X509_STORE_CTX_new();
    X509_VERIFY_PARAM *param;
    int problem;

    X509_STORE_add_cert(store, leaf->issuer);
    X509_STORE_CTX_init(context, store, leaf->certificate, NULL);
    param = X509_STORE_CTX_get0_param(context);
    X509_VERIFY_PARAM_set_flags(param, X509_V_FLAG_X509_STRICT);
    X509_VERIFY_PARAM_set_purpose(param, X509_PURPOSE_SSL_SERVER);
    if (literal)
        X509_VERIFY_PARAM_set1_ip_asc(param, name);
    else
        X509_VERIFY_PARAM_set1_host(param, name, 0);
    X509_verify_cert(context);
    problem = X509_STORE_CTX_get_error(context);
    X509_STORE_CTX_free(context);
    X509_STORE_free(store);
    return problem;
}

TEST(a_thousand_leaves_pass_strict_verification)
{
    struct vault *vault = open_vault();
    struct ca *ca;
    struct error err = ERROR_INIT;

    CHECK_EQ(ca_open(&ca, vault, clock_system(), &err), 0);
    for (unsigned i = 0; i < 1000; i++) {
        struct ca_leaf leaf;
        AUTO_FREE
        char *name = mem_printf("host-%u.example", i);

        CHECK_EQ(ca_leaf(ca, name, false, &leaf, &err), 0);
        CHECK_EQ(verify(&leaf, name, false), X509_V_OK);
    }
    ca_close(ca);
    vault_close(vault);
}

TEST(a_leaf_is_for_its_name_alone)
{
    struct vault *vault = open_vault();
    struct ca *ca;
    struct ca_leaf leaf;
    char long_name[254];
    struct error err = ERROR_INIT;

    CHECK_EQ(ca_open(&ca, vault, clock_system(), &err), 0);
    CHECK_EQ(ca_leaf(ca, "a.example", false, &leaf, &err), 0);
    CHECK_EQ(verify(&leaf, "b.example", false), X509_V_ERR_HOSTNAME_MISMATCH);
    CHECK_EQ(ca_leaf(ca, "a,DNS:b.example", false, &leaf, &err), 0);
    CHECK_EQ(verify(&leaf, "b.example", false), X509_V_ERR_HOSTNAME_MISMATCH);
    CHECK_EQ(ca_leaf(ca, "127.0.0.1", true, &leaf, &err), 0);
    CHECK_EQ(verify(&leaf, "127.0.0.1", true), X509_V_OK);
    CHECK_EQ(ca_leaf(ca, "::1", true, &leaf, &err), 0);
    CHECK_EQ(verify(&leaf, "::1", true), X509_V_OK);
    memset(long_name, 'a', sizeof(long_name));
    for (size_t i = 60; i < sizeof(long_name); i += 61)
        long_name[i] = '.';
    long_name[sizeof(long_name) - 1] = '\0';
    CHECK_EQ(ca_leaf(ca, long_name, false, &leaf, &err), 0);
    CHECK_EQ(verify(&leaf, long_name, false), X509_V_OK);
    ca_close(ca);
    vault_close(vault);
}

TEST(leaves_are_kept_and_made_anew_in_time)
{
    struct vault *vault = open_vault();
    struct turned_clock clock = { { turned_ms, turned_ms }, clock_wall_ms(clock_system()) };
    struct ca *ca;
    struct ca_leaf first;
    struct ca_leaf second;
    struct error err = ERROR_INIT;

    CHECK_EQ(ca_open(&ca, vault, &clock.clock, &err), 0);
    CHECK_EQ(ca_leaf(ca, "a.example", false, &first, &err), 0);
    X509_up_ref(first.certificate);
    CHECK_EQ(ca_leaf(ca, "a.example", false, &second, &err), 0);
    CHECK(first.certificate == second.certificate);
    clock.ms += UINT64_C(6) * 86400 * 1000 + 1000;
    CHECK_EQ(ca_leaf(ca, "a.example", false, &second, &err), 0);
    CHECK(first.certificate != second.certificate);
    X509_free(first.certificate);
    ca_close(ca);
    vault_close(vault);
}

TEST(the_authority_stays_the_same_and_its_key_is_sealed)
{
    struct vault *vault = open_vault();
    struct turned_clock clock = { { turned_ms, turned_ms }, clock_wall_ms(clock_system()) };
    struct stat status;
    struct ca *ca;
    AUTO_FREE
    char *path = mem_printf("%s/vault.ca", tmp_dir());
    AUTO_FREE
    char *sealed = NULL;
    size_t len;
    struct error err = ERROR_INIT;

    CHECK_EQ(ca_open(&ca, vault, &clock.clock, &err), 0);
    AUTO_FREE
    char *first = mem_strdup(ca_pem(ca));
    ca_close(ca);
    CHECK_EQ(stat(path, &status), 0);
    CHECK_EQ(status.st_mode & 0777, 0600);
    CHECK_EQ(fd_read_file(path, 1u << 16, &sealed, &len, &err), 0);
    CHECK(memmem(sealed, len, "BEGIN", 5) == NULL);
    CHECK_EQ(ca_open(&ca, vault, &clock.clock, &err), 0);
    CHECK_STR(ca_pem(ca), first);
    ca_close(ca);
    /* Near its end there is a new one. */
    clock.ms += UINT64_C(3630) * 86400 * 1000;
    CHECK_EQ(ca_open(&ca, vault, &clock.clock, &err), 0);
    CHECK(strcmp(ca_pem(ca), first) != 0);
    ca_close(ca);
    vault_close(vault);
}

TEST(a_damaged_authority_is_an_error)
{
    struct vault *vault = open_vault();
    struct ca *ca;
    AUTO_FREE
    char *path = mem_printf("%s/vault.ca", tmp_dir());
    struct error err = ERROR_INIT;

    CHECK_EQ(ca_open(&ca, vault, clock_system(), &err), 0);
    ca_close(ca);
    CHECK_EQ(fd_replace_file(path, "nonsense", 8, 0600, &err), 0);
    CHECK_EQ(ca_open(&ca, vault, clock_system(), &err), -1);
    CHECK_HAS(err.text, "certificate authority");
    CHECK_EQ(vault_own_put(vault, "ca", "no pem", 6, &(struct error)ERROR_INIT), 0);
    CHECK_EQ(ca_open(&ca, vault, clock_system(), &err), -1);
    vault_close(vault);
}
