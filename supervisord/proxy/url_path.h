/* url_path.h: paths of requests in the one form that is judged and sent. Pure. */
#ifndef PROXY_URL_PATH_H
#define PROXY_URL_PATH_H

#include <stdbool.h>
#include <stddef.h>

/* Canonical form of a path: percent-encoded unreserved characters decoded, the other escapes in
 * upper case. NULL with *REASON when the path could be read in more than one way: dot segments,
 * encoded slashes, dots, backslashes, controls, empty segments, broken UTF-8. Freed by the caller.
 */
char *url_path_canonical(const char *path, size_t len, const char **reason);
/* The same, but an escaped slash stays one. */
char *url_path_slashes(const char *path, size_t len, const char **reason);
/* True when PATH is its own canonical form. */
bool url_path_plain(const char *path, size_t len);

#endif
