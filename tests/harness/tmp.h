/* tmp.h: private folders for tests. */
#ifndef TESTS_HARNESS_TMP_H
#define TESTS_HARNESS_TMP_H

#include <stddef.h>
#include <sys/types.h>

/* The current test's own folder, mode 0700, made on first use below TMPDIR and removed with all it
 * holds when the test ends. Borrowed until then. */
const char *tmp_dir(void);
/* "folder/NAME": NAME is not made. Borrowed until the test ends. */
const char *tmp_path(const char *name);
/* Writes a file with MODE below the folder and returns its path. */
const char *tmp_file(const char *name, const void *data, size_t len, mode_t mode);
/* Makes a folder, mode 0700, below the test's folder and returns its path. */
const char *tmp_subdir(const char *name);
/* Removes PATH and everything below; symbolic links are not followed. */
void tmp_remove_tree(const char *path);

#endif
