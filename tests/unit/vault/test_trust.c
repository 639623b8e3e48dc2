#include <string.h>
#include <sys/stat.h>

#include "common/fd.h"
#include "common/mem.h"
#include "harness/test.h"
#include "harness/tmp.h"
#include "vault/ca.h"
#include "vault/trust.h"

static struct ca *open_ca(void)
{
    struct vault_options options = { .state_dir = tmp_dir(), .clock = clock_system() };
    struct vault *vault;
    struct ca *ca;
    struct error err = ERROR_INIT;

    CHECK_EQ(vault_open(&vault, &options, &err), 0);
    CHECK_EQ(ca_open(&ca, vault, clock_system(), &err), 0);
    vault_close(vault);
    return ca;
}

static char *read_file(const char *folder, const char *name, size_t *len)
{
    AUTO_FREE
    char *path = mem_printf("%s/%s", folder, name);
    char *text;
    struct error err = ERROR_INIT;

    CHECK_EQ(fd_read_file(path, 16u << 20, &text, len, &err), 0);
    return text;
}

TEST(tools_find_the_authority_in_every_form)
{
    struct ca *ca = open_ca();
    struct trust trust;
    struct stat status;
    size_t len;
    struct error err = ERROR_INIT;

    CHECK_EQ(trust_write(&trust, tmp_dir(), ca_pem(ca), NULL, &err), 0);
    AUTO_FREE
    char *own = read_file(trust.folder, "ca.pem", &len);
    CHECK_STR(own, ca_pem(ca));
    AUTO_FREE
    char *bundle = read_file(trust.folder, "bundle.pem", &len);
    CHECK_HAS(bundle, ca_pem(ca));
    AUTO_FREE
    char *java = read_file(trust.folder, "cacerts.jks", &len);
    static const char head[] = { (char)0xfe, (char)0xed, (char)0xfe, (char)0xed, 0, 0, 0, 2 };
    CHECK(len > 100 && memcmp(java, head, sizeof(head)) == 0);
    CHECK_EQ(stat(trust.folder, &status), 0);
    CHECK_EQ(status.st_mode & 0777, 0755);
    trust_finish(&trust);
    ca_close(ca);
}

TEST(certificates_of_the_operator_are_trusted_too)
{
    struct ca *ca = open_ca();
    struct trust trust;
    const char *extra = tmp_file("extra.pem", "words of the operator\n", 22, 0600);
    size_t len;
    struct error err = ERROR_INIT;

    CHECK_EQ(trust_write(&trust, tmp_dir(), ca_pem(ca), extra, &err), 0);
    AUTO_FREE
    char *own = read_file(trust.folder, "ca.pem", &len);
    CHECK_HAS(own, "words of the operator");
    AUTO_FREE
    char *bundle = read_file(trust.folder, "bundle.pem", &len);
    CHECK_HAS(bundle, "words of the operator");
    trust_finish(&trust);
    CHECK_EQ(trust_write(&trust, tmp_dir(), ca_pem(ca), "/no/such.pem", &err), -1);
    CHECK_HAS(err.text, "certificates for sandboxes");
    ca_close(ca);
}

TEST(what_is_written_already_is_left_alone)
{
    struct ca *ca = open_ca();
    struct trust trust;
    struct stat first;
    struct stat second;
    struct error err = ERROR_INIT;

    CHECK_EQ(trust_write(&trust, tmp_dir(), ca_pem(ca), NULL, &err), 0);
    CHECK_EQ(stat(trust.bundle, &first), 0);
    trust_finish(&trust);
    CHECK_EQ(trust_write(&trust, tmp_dir(), ca_pem(ca), NULL, &err), 0);
    CHECK_EQ(stat(trust.bundle, &second), 0);
    CHECK_EQ(first.st_ino, second.st_ino);
    CHECK_EQ(fd_replace_file(trust.bundle, "x", 1, 0644, &err), 0);
    trust_finish(&trust);
    CHECK_EQ(trust_write(&trust, tmp_dir(), ca_pem(ca), NULL, &err), 0);
    CHECK_EQ(stat(trust.bundle, &second), 0);
    CHECK(second.st_size > 1);
    trust_finish(&trust);
    ca_close(ca);
}
