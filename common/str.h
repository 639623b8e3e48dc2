/* str.h: bounded text. */
#ifndef COMMON_STR_H
#define COMMON_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "buf.h"

/* Copies as much of FROM as fits, always terminates, never splits a UTF-8 sequence. True when all
 * of it fitted. */
bool str_copy(char *to, size_t to_size, const char *from);
bool str_equal(const char *a, const char *b); /* NULL equals only NULL */
bool str_starts(const char *text, const char *prefix);
bool str_ends(const char *text, const char *suffix);
/* Only white space (space, tab, CR, LF, VT, FF) or nothing. */
bool str_blank(const char *text);

/* Length in bytes of the valid UTF-8 sequence (RFC 3629) that DATA begins with, and its code point
 * in *CODE_POINT (which may be NULL); 0 when DATA begins with none or LEN is 0. */
size_t str_utf8_step(const char *data, size_t len, uint32_t *code_point);
/* Valid UTF-8 by RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF. */
bool str_is_utf8(const char *data, size_t len);
/* Appends DATA with each byte that is not part of valid UTF-8, and each U+0000, replaced by U+FFFD.
 */
void str_append_utf8(struct buf *buf, const char *data, size_t len);
/* Number of code points in valid UTF-8. */
size_t str_utf8_length(const char *text);
/* Largest length <= len at which DATA may be cut without splitting a UTF-8 sequence. */
size_t str_utf8_cut(const char *data, size_t len);

/* Escapes a peer's bytes for one log line or terminal: printable UTF-8 stays, control characters,
 * ESC, C1, bidi marks and bytes that are no UTF-8 become \xHH or \u{HHHH}; at most max_bytes are
 * appended, then "…". */
void str_append_escaped(struct buf *buf, const char *data, size_t len, size_t max_bytes);

/* A list of COUNT strings, on the heap like its entries; room for a NULL behind the last. */
char **str_list_copy(const char *const *list, size_t count);
void str_list_free(char **list, size_t count); /* NULL is fine */

/* Whole-string decimal numbers: no sign, no space, no leading zeros but "0" itself; false on
 * overflow past MAX. */
bool str_parse_u64(const char *text, uint64_t max, uint64_t *out);

/* A name as secrets have it, since some are variables of the environment: a capital letter, then
 * capital letters, digits and underscores, 64 characters at most. */
bool str_is_secret_name(const char *text);

/* FNV-1a, 64 bits: to find equals by, and no secret. Goes on from HASH, which is STR_HASH_START for
 * the first piece. The value is the same for ever: some are kept on disk. */
#define STR_HASH_START UINT64_C(0xcbf29ce484222325)
#define STR_HASH_PRIME UINT64_C(0x100000001b3)
uint64_t str_hash(uint64_t hash, const char *text);

/* Lower-case hex. TO has room for 2 * len + 1. */
void str_hex(char *to, const void *data, size_t len);
/* Of a hexadecimal digit in either case, or -1. */
int str_hex_value(char c);

#endif
