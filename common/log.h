/* log.h: one line per event on stderr:
 *   2026-11-29T15:04:05.123Z info run_01… clone finished in 812 ms
 * Level, the object the line is about, text in lower case without a full stop. A peer's bytes go
 * through str_append_escaped first, so a line is always one line. Never a secret. */
#ifndef COMMON_LOG_H
#define COMMON_LOG_H

#include <stdarg.h>

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

/* The only state of the module: the level and where lines go. Set once by main(). The sink gets the
 * whole line with its line end; NULL means stderr. */
void log_set_level(enum log_level level);
void log_set_sink(void (*sink)(void *data, const char *line), void *data);
int log_level_parse(const char *name); /* a level, or -1 */

/* OBJECT is an id such as a run's, or a part's name ("proxy"); never NULL. */
void log_write(enum log_level level, const char *object, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#define log_error(object, ...) log_write(LOG_LEVEL_ERROR, (object), __VA_ARGS__)
#define log_warn(object, ...) log_write(LOG_LEVEL_WARN, (object), __VA_ARGS__)
#define log_info(object, ...) log_write(LOG_LEVEL_INFO, (object), __VA_ARGS__)
#define log_debug(object, ...) log_write(LOG_LEVEL_DEBUG, (object), __VA_ARGS__)

#endif
