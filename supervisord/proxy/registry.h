/* registry.h: the package registries that this machine's tools are set to, read out of what the
 * tools say and of their files. Pure: text in, addresses out. */
#ifndef PROXY_REGISTRY_H
#define PROXY_REGISTRY_H

#include <stddef.h>

/* How a source speaks. */
enum registry_form {
    REGISTRY_PLAIN,   /* every address in it, and a bare name on a line of its own */
    REGISTRY_SETTING, /* addresses on lines that speak of a registry or an index; # begins a comment
                       */
    REGISTRY_HELP,    /* the address behind "(default", of a program's help */
    REGISTRY_SOURCES, /* apt's: lines that begin with deb or URIs */
    REGISTRY_FOLDER,  /* "HOST-HASH", a folder's name in cargo's cache */
};

/* Calls EACH with "GET,HEAD HOST:PORT" for each address, borrowed, the same one perhaps more than
 * once; no more than 32. Userinfo in an address is left out. */
void registry_read(enum registry_form form, const char *text, size_t len,
                   void (*each)(void *data, const char *rule), void *data);

/* Calls EACH with "NAME=value" for what lets the same tool, npm, pip3 or go, find the same registry
 * in a sandbox, borrowed. An address with userinfo is a credential and stays here. */
void registry_variables(const char *tool, const char *text, size_t len,
                        void (*each)(void *data, const char *variable), void *data);

#endif
