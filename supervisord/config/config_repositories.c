#include <string.h>

#include "common/json_write.h"
#include "common/mem.h"
#include "common/str.h"
#include "config/config_internal.h"

enum {
    REPOSITORIES_MAX = 1000,
    ADDRESS_MAX = 2048,
    COMMAND_MAX = 4096,
    MINUTES_MAX = 1440,
    MODEL_MAX = 200,
    SERVICES_MAX = 32
};

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

/* The text members, and what they may be. */
static bool command_valid(const char *text)
{
    return strlen(text) <= COMMAND_MAX && strchr(text, '\n') == NULL;
}

static bool model_valid(const char *text)
{
    return strlen(text) <= MODEL_MAX && strchr(text, '/') != NULL && strchr(text, '\n') == NULL;
}

static const struct text_member {
    const char *name;
    size_t offset;
    bool (*valid)(const char *text);
    const char *must;
} text_members[] = {
    { "setup", offsetof(struct config_repository, setup), command_valid,
      "one line of at most 4096 bytes" },
    { "filter", offsetof(struct config_repository, filter), config_filter_valid,
      "none, blob:none, blob:limit=SIZE or tree:DEPTH" },
    { "model", offsetof(struct config_repository, model), model_valid, "provider/model" },
    { "branch", offsetof(struct config_repository, work_branch), config_branch_valid,
      "a branch name with {id} in it, and perhaps {slug}, or empty" },
};

static int read_text(struct config_repository *repository, const struct place *place,
                     const struct text_member *member, const struct json_value *value,
                     struct error *err)
{
    const char *text = json_string(value);

    if (text == NULL || !member->valid(text))
        return wrong(place, value, member->name, member->must, err);
    config_replace((char **)((char *)repository + member->offset), mem_strdup(text));
    return 0;
}

static int read_services(struct config_repository *repository, const struct place *place,
                         const struct json_value *value, struct error *err)
{
    static const char must[] = "an array of at most 32 names of services";
    size_t count = json_count(value);

    if (json_kind(value) != JSON_KIND_ARRAY || count > SERVICES_MAX || repository->services != NULL)
        return wrong(place, value, "services", must, err);
    repository->services = mem_new_zero(count + 1, sizeof(*repository->services));
    for (const struct json_value *one = json_first(value); one != NULL; one = json_next(one)) {
        const char *name = json_string(one);

        if (name == NULL || name[0] == '\0' || strlen(name) > 64)
            return wrong(place, one, "services", must, err);
        repository->services[repository->service_count++] = mem_strdup(name);
    }
    return 0;
}

static int read_member(struct config_repository *repository, const struct place *place,
                       const struct json_value *member, struct error *err)
{
    const char *name = json_name(member);
    uint64_t minutes = json_u64(member, 0);

    for (size_t i = 0; i < ARRAY_LEN(text_members); i++) {
        if (str_equal(name, text_members[i].name))
            return read_text(repository, place, &text_members[i], member, err);
    }
    if (str_equal(name, "services"))
        return read_services(repository, place, member, err);
    if (!str_equal(name, "setupMinutes"))
        return wrong(place, member, "",
                     "an object of setup, setupMinutes, filter, model, branch and services, "
                     "nothing else",
                     err);
    if (minutes < 1 || minutes > MINUTES_MAX)
        return wrong(place, member, name, "a whole number from 1 to 1440", err);
    repository->setup_minutes = (uint32_t)minutes;
    return 0;
}

static int read_repository(struct config_repository *repository, const struct place *place,
                           const struct json_value *entry, struct error *err)
{
    if (json_kind(entry) != JSON_KIND_OBJECT)
        return wrong(place, entry, "", "an object with setup, model and the like", err);
    for (const struct json_value *member = json_first(entry); member != NULL;
         member = json_next(member)) {
        if (read_member(repository, place, member, err) < 0)
            return -1;
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
        repository->filter = mem_strdup("");
        repository->model = mem_strdup("");
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
        struct config_repository *repository = &config->repositories[i];

        free(repository->address);
        free(repository->setup);
        free(repository->filter);
        free(repository->model);
        free(repository->work_branch);
        for (size_t j = 0; j < repository->service_count; j++)
            free(repository->services[j]);
        free(repository->services);
    }
    free(config->repositories);
}

static void print_services(const struct config_repository *repository, struct json_writer *writer)
{
    json_write_name(writer, "services");
    json_write_array(writer);
    for (size_t i = 0; i < repository->service_count; i++)
        json_write_string(writer, repository->services[i]);
    json_write_array_end(writer);
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
        if (repository->filter[0] != '\0')
            json_member_string(&writer, "filter", repository->filter);
        if (repository->model[0] != '\0')
            json_member_string(&writer, "model", repository->model);
        json_member_string_opt(&writer, "branch", repository->work_branch);
        if (repository->services != NULL)
            print_services(repository, &writer);
        json_write_object_end(&writer);
        buf_append_str(out, "  # file\n");
    }
}
