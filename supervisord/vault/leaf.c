/* leaf.c: certificates as strict verifiers want them: version 3, key identifiers, usages, a random
 * positive serial. */
#include "vault/ca_internal.h"

#include <openssl/x509v3.h>
#include <string.h>

#include "common/mem.h"

#define SERIAL_BITS 127
#define COMMON_NAME_MAX 64

struct evp_pkey_st *leaf_key_new(void)
{
    return EVP_EC_gen("P-256");
}

static bool add_extension(X509 *certificate, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX context;
    X509_EXTENSION *extension;
    bool ok;

    X509V3_set_ctx(&context, issuer, certificate, NULL, NULL, 0);
    extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
    ok = extension != NULL && X509_add_ext(certificate, extension, -1) == 1;
    X509_EXTENSION_free(extension);
    return ok;
}

/* Not by OpenSSL's text form, in which a comma in the name would begin another entry. */
static bool add_name(X509 *certificate, const char *name, bool literal)
{
    GENERAL_NAMES *names = GENERAL_NAMES_new();
    GENERAL_NAME *entry = GENERAL_NAME_new();
    ASN1_STRING *text = literal ? a2i_IPADDRESS(name) : ASN1_IA5STRING_new();
    bool ok = names != NULL && entry != NULL && text != NULL &&
              (literal || ASN1_STRING_set(text, name, -1) == 1);

    if (!ok) {
        ASN1_STRING_free(text);
        GENERAL_NAME_free(entry);
        GENERAL_NAMES_free(names);
        return false;
    }
    GENERAL_NAME_set0_value(entry, literal ? GEN_IPADD : GEN_DNS, text);
    ok = sk_GENERAL_NAME_push(names, entry) > 0 &&
         X509_add1_ext_i2d(certificate, NID_subject_alt_name, names, 0, X509V3_ADD_DEFAULT) == 1;
    GENERAL_NAMES_free(names);
    return ok;
}

static bool add_extensions(X509 *certificate, const struct leaf_options *options)
{
    X509 *issuer = options->issuer != NULL ? options->issuer : certificate;

    if (!add_extension(certificate, issuer, NID_subject_key_identifier, "hash"))
        return false;
    if (options->issuer == NULL)
        return add_extension(certificate, issuer, NID_authority_key_identifier, "keyid") &&
               add_extension(certificate, issuer, NID_basic_constraints,
                             "critical,CA:TRUE,pathlen:0") &&
               add_extension(certificate, issuer, NID_key_usage, "critical,keyCertSign,cRLSign");
    return add_extension(certificate, issuer, NID_authority_key_identifier, "keyid:always") &&
           add_extension(certificate, issuer, NID_basic_constraints, "critical,CA:FALSE") &&
           add_extension(certificate, issuer, NID_key_usage, "critical,digitalSignature") &&
           add_extension(certificate, issuer, NID_ext_key_usage, "serverAuth") &&
           add_name(certificate, options->name, options->literal);
}

static bool set_serial(X509 *certificate)
{
    BIGNUM *number = BN_new();
    bool ok = number != NULL &&
              BN_rand(number, SERIAL_BITS, BN_RAND_TOP_ONE, BN_RAND_BOTTOM_ANY) == 1 &&
              BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate)) != NULL;

    BN_free(number);
    return ok;
}

static bool set_subject(X509 *certificate, const struct leaf_options *options)
{
    const char *name = strlen(options->name) <= COMMON_NAME_MAX ? options->name : "sandbox";
    X509_NAME *subject = X509_get_subject_name(certificate);

    return X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8, (const unsigned char *)name, -1,
                                      -1, 0) == 1 &&
           X509_set_issuer_name(certificate, options->issuer != NULL
                                                 ? X509_get_subject_name(options->issuer)
                                                 : subject) == 1;
}

static bool fill(X509 *certificate, const struct leaf_options *options)
{
    return X509_set_version(certificate, X509_VERSION_3) == 1 && set_serial(certificate) &&
           ASN1_TIME_set(X509_getm_notBefore(certificate), options->from) != NULL &&
           ASN1_TIME_set(X509_getm_notAfter(certificate), options->until) != NULL &&
           set_subject(certificate, options) && X509_set_pubkey(certificate, options->key) == 1 &&
           add_extensions(certificate, options) &&
           X509_sign(certificate, options->issuer_key, EVP_sha256()) > 0;
}

struct x509_st *leaf_make(const struct leaf_options *options)
{
    X509 *certificate = X509_new();

    if (certificate != NULL && fill(certificate, options))
        return certificate;
    X509_free(certificate);
    return NULL;
}
