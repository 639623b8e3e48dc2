#include <string.h>

#include "common/json_write.h"
#include "common/mem.h"
#include "common/str.h"
#include "config/config_internal.h"

enum { REPOSITORIES_MAX = 1000, ADDRESS_MAX = 2048, COMMAND_MAX = 4096, MINUTES_MAX = 1440 };

/* Where we are in the file, for messages. */
struct place {
    const char *file;
    const char *address; /* escaped */
};

static int wrong(const struct place *place, const struct json_value *at, const char *name,
                 const char *must, struct error *err)
{
    error_set(err, ERR_INVALID, 0, "repositories.\"%s\"%s%s: must be %s", place->address,
              name[0] != '\0' ? "." : "", name, must);
    return config_at(err, place->file, json_line(at));
}

static int read_command(struct config_repository *repository, const struct place *place,
                        const struct json_value *member, struct error *err)
{
    const char *text = json_string(member);

    if (text == NULL || strlen(text) > COMMAND_MAX || strchr(text, '\n') != NULL)
        return wrong(place, member, "setup", "one line of at most 4096 bytes", err);
    free(repository->setup);
    repository->setup = mem_strdup(text);
    return 0;
}

static int read_repository(struct config_repository *repository, const struct place *place,
                           const struct json_value *entry, struct error *err)
{
    if (json_kind(entry) != JSON_KIND_OBJECT)
        return wrong(place, entry, "", "an object with setup and setupMinutes", err);
    for (const struct json_value *member = json_first(entry); member != NULL;
         member = json_next(member)) {
        const char *name = json_name(member);
        uint64_t minutes = json_u64(member, 0);

        if (str_equal(name, "setup")) {
            if (read_command(repository, place, member, err) < 0)
                return -1;
        } else if (!str_equal(name, "setupMinutes")) {
            return wrong(place, member, "", "an object of setup and setupMinutes, nothing else",
                         err);
        } else if (minutes < 1 || minutes > MINUTES_MAX) {
            return wrong(place, member, name, "a whole number from 1 to 1440", err);
        } else {
            repository->setup_minutes = (uint32_t)minutes;
        }
    }
    return 0;
}

int config_repositories_read(struct config *config, const struct json_value *repositories,
                             const char *file, struct error *err)
{
    size_t count = json_count(repositories);

    if (json_kind(repositories) != JSON_KIND_OBJECT || count > REPOSITORIES_MAX) {
        error_set(err, ERR_INVALID, 0, "repositories must be an object of at most %d addresses",
                  REPOSITORIES_MAX);
        return config_at(err, file, json_line(repositories));
    }
    config->repositories = mem_new_zero(count + 1, sizeof(*config->repositories));
    for (const struct json_value *entry = json_first(repositories); entry != NULL;
         entry = json_next(entry)) {
        struct config_repository *repository = &config->repositories[config->repository_count++];
        const char *address = json_name(entry);
        AUTO_BUF struct buf shown = { 0 };

        buf_init(&shown, 512);
        str_append_escaped(&shown, address, strlen(address), 100);
        struct place place = { file, buf_text(&shown) };
        repository->address = mem_strdup(address);
        repository->setup = mem_strdup("");
        if (address[0] == '\0' || strlen(address) > ADDRESS_MAX)
            return wrong(&place, entry, "", "named by an address of at most 2048 bytes", err);
        if (read_repository(repository, &place, entry, err) < 0)
            return -1;
    }
    return 0;
}

void config_repositories_finish(struct config *config)
{
    for (size_t i = 0; i < config->repository_count; i++) {
        free(config->repositories[i].address);
        free(config->repositories[i].setup);
    }
    free(config->repositories);
}

void config_repositories_print(const struct config *config, struct buf *out)
{
    for (size_t i = 0; i < config->repository_count; i++) {
        const struct config_repository *repository = &config->repositories[i];
        struct json_writer writer;

        buf_append_str(out, "repositories.");
        json_write_init(&writer, out);
        json_write_string(&writer, repository->address);
        buf_append_str(out, " = ");
        json_write_init(&writer, out);
        json_write_object(&writer);
        json_member_string(&writer, "setup", repository->setup);
        if (repository->setup_minutes > 0)
            json_member_u64(&writer, "setupMinutes", repository->setup_minutes);
        json_write_object_end(&writer);
        buf_append_str(out, "  # file\n");
    }
}
