/* config_internal.h: the table of settings and what its users share. */
#ifndef CONFIG_CONFIG_INTERNAL_H
#define CONFIG_CONFIG_INTERNAL_H

#include "common/json.h"
#include "config/config.h"

enum setting_kind { SETTING_STRING, SETTING_U32, SETTING_BOOL, SETTING_LIST };

/* One row a setting. The type of its member is checked by the macros that make the rows. */
struct setting {
    const char *name; /* "limits.memoryMiB": a path in the file */
    enum setting_kind kind;
    size_t offset;       /* of the value in struct config */
    size_t count_offset; /* of a list's length */
    uint64_t min;        /* of a number, or of a text's length in bytes */
    uint64_t max;
    uint64_t number;  /* default of numbers and bools */
    const char *text; /* default of texts */
    int (*check)(char **value,
                 const struct paths *paths); /* may replace the text; -1 when it is wrong */
    const char *allowed;                     /* of texts, for messages: "must be …" */
    const char *env;                         /* environment variable that overrides; NULL: none */
    const char *help;
};

extern const struct setting config_settings[];
extern const size_t config_setting_count;

/* Set from the file or the environment. err->text says what is allowed, without the name. */
int config_set_json(struct config *config, const struct setting *setting,
                    const struct json_value *value, const struct paths *paths, struct error *err);
int config_set_text(struct config *config, const struct setting *setting, const char *text,
                    const struct paths *paths, struct error *err);
void config_set_origin(struct config *config, const struct setting *setting,
                       enum config_origin origin);

/* What values are made of. */
#define CONFIG_LOWER "abcdefghijklmnopqrstuvwxyz"
#define CONFIG_UPPER "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define CONFIG_DIGITS "0123456789"
/* Are the first LEN bytes some, and all of them among BYTES? */
bool config_only(const char *text, size_t len, const char *bytes);
/* What git clone takes as --filter, or "none". */
bool config_filter_valid(const char *text);
/* Names of branches made from it are fine, and differ from session to session. "" is valid. */
bool config_branch_valid(const char *text);
/* A rule of egress, which is replaced by its plain spelling. */
int config_egress_rule(char **value);
/* What a push may name: "agent/...", "fix", "refs/tags/x", all below with "/..." at the end. */
bool config_push_ref_valid(const char *ref);
/* Frees what was there; WITH is taken. */
void config_replace(char **field, char *with);

/* config_file.c: merges the file. */
int config_file_read(struct config *config, const struct paths *paths, struct error *err);
/* Puts "file:line: " before the text; LINE 0 leaves it out. */
int config_at(struct error *err, const char *file, unsigned line);

/* config_services.c */
void config_services_init(struct config *config); /* the built-in ones */
void config_services_finish(struct config *config);
/* The "services" object of the file. Errors name file and line. */
int config_services_read(struct config *config, const struct json_value *services, const char *file,
                         struct error *err);
void config_services_print(const struct config *config, struct buf *out);

/* config_agents.c */
void config_agents_init(struct config *config); /* the built-in ones */
void config_agents_finish(struct config *config);
/* One member of the file's "agents" that is no setting of the table. Errors name file and line. */
int config_agents_read(struct config *config, const struct json_value *entry, const char *file,
                       struct error *err);
void config_agents_print(const struct config *config, struct buf *out);

/* config_repositories.c */
void config_repositories_finish(struct config *config);
int config_repositories_read(struct config *config, const struct json_value *repositories,
                             const char *file, struct error *err);
void config_repositories_print(const struct config *config, struct buf *out);

/* config_prices.c */
void config_prices_init(struct config *config); /* the built-in ones */
void config_prices_finish(struct config *config);
int config_prices_read(struct config *config, const struct json_value *prices, const char *file,
                       struct error *err);
void config_prices_print(const struct config *config, struct buf *out);

void config_list_free(char **list, size_t count);

#endif
