/* trust.h: what programs in a sandbox are to trust: the host's certificates and the installation's
 * own authority, in the forms that tools read. Written once, for the first run. */
#ifndef VAULT_TRUST_H
#define VAULT_TRUST_H

#include "common/error.h"

/* Files and folders are on the host; the paths to cover are the same inside, NULL when the host has
 * none. */
struct trust {
    char *folder;      /* holds bundle.pem, cacerts.jks, and ca.pem: what the host does not trust */
    char *bundle;      /* folder/bundle.pem: all of them */
    char *java;        /* folder/cacerts.jks: the same for Java, password "changeit" */
    char *system_file; /* where programs look for the bundle */
    char *java_file;   /* and Java for its own */
};

/* CA_PEM is the authority's certificate, EXTRA_FILE more of them (NULL: none). */
int trust_write(struct trust *trust, const char *state_dir, const char *ca_pem,
                const char *extra_file, struct error *err);
void trust_finish(struct trust *trust);

#endif
