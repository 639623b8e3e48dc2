/* error.h: the one error value that functions of this project fill.
 *
 * A function that can fail returns 0 or -1 (or a pointer or NULL) and takes `struct error *err` as
 * its last parameter. ERR is never NULL; on success it is left untouched. The struct lives on the
 * caller's stack, holds no pointer and needs no freeing. A text never holds a secret. */
#ifndef COMMON_ERROR_H
#define COMMON_ERROR_H

enum error_code {
    ERR_NONE = 0,
    ERR_INVALID,     /* the caller's input is wrong; the text names the argument */
    ERR_NOT_FOUND,   /* the thing named does not exist */
    ERR_DENIED,      /* it exists, but may not be had */
    ERR_CONFLICT,    /* it is in a state that forbids this */
    ERR_LIMIT,       /* a bound was reached */
    ERR_TIMEOUT,     /* a deadline passed */
    ERR_CANCELLED,   /* someone asked for it to stop */
    ERR_UNAVAILABLE, /* a service or program that is needed is not there; may work later */
    ERR_SYSTEM,      /* the system refused; sys holds errno */
    ERR_BUG,         /* a promise of our own code was broken */
};

struct error {
    enum error_code code;
    int sys;           /* errno for ERR_SYSTEM, else 0 */
    char argument[40]; /* name of the wrong argument for ERR_INVALID, else "" */
    char text[320];    /* one line for a person, lower case, no full stop */
};

#define ERROR_INIT                                                                                 \
    {                                                                                              \
        ERR_NONE, 0, "", ""                                                                        \
    }

/* Sets ERR and returns -1, so that `return error_set(...)` works. SYS is an errno or 0; when not 0,
 * ": strerror" is appended to the text. A text too long is cut at a UTF-8 boundary; a control
 * character becomes a space. */
int error_set(struct error *err, enum error_code code, int sys, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Like error_set with ERR_INVALID, and names the ARGUMENT that was wrong: the text becomes
 * "ARGUMENT: …", so that those who show only the text lose nothing. ARGUMENT may be a peer's bytes;
 * it is escaped and cut. */
int error_argument(struct error *err, const char *argument, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Puts "format: " before the text that is there and returns -1; code, sys and argument stay. */
int error_wrap(struct error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* "invalid", "not_found", … as sent over the socket. error_code_parse answers ERR_BUG for an
 * unknown name. */
const char *error_code_name(enum error_code code);
enum error_code error_code_parse(const char *name);

#endif
