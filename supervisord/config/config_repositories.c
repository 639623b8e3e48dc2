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
    SERVICES_MAX = 32,
    HOSTS_MAX = 200,
    REFS_MAX = 32,
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

/* The lists, and what stands in them. */
static int take_service(char **name)
{
    return (*name)[0] != '\0' && strlen(*name) <= 64 ? 0 : -1;
}

static int take_ref(char **ref)
{
    return (*ref)[0] != '\0' && config_push_ref_valid(*ref) ? 0 : -1;
}

struct list_member {
    const char *name;
    size_t offset;
    size_t count_offset;
    size_t max;
    int (*take)(char **text); /* may replace it */
    const char *must;
};

static const struct list_member services_member = { "services",
                                                    offsetof(struct config_repository, services),
                                                    offsetof(struct config_repository,
                                                             service_count),
                                                    SERVICES_MAX,
                                                    take_service,
                                                    "an array of at most 32 names of services" };
static const struct list_member egress_member = {
    "egress",
    offsetof(struct config_repository, egress),
    offsetof(struct config_repository, egress_count),
    HOSTS_MAX,
    config_egress_rule,
    "an array of at most 200 rules as in egress.allow, such as \"files.example:443\""
};
static const struct list_member refs_member = {
    "push.refs",
    offsetof(struct config_repository, push_refs),
    offsetof(struct config_repository, push_ref_count),
    REFS_MAX,
    take_ref,
    "an array of at most 32 branches such as \"agent/...\" or refs such as \"refs/tags/agent/...\""
};

static int read_list(struct config_repository *repository, const struct place *place,
                     const struct list_member *member, const struct json_value *value,
                     struct error *err)
{
    char ***list = (char ***)((char *)repository + member->offset);
    size_t *count = (size_t *)((char *)repository + member->count_offset);

    if (json_kind(value) != JSON_KIND_ARRAY || json_count(value) > member->max || *list != NULL)
        return wrong(place, value, member->name, member->must, err);
    *list = mem_new_zero(json_count(value) + 1, sizeof(**list));
    for (const struct json_value *one = json_first(value); one != NULL; one = json_next(one)) {
        const char *text = json_string(one);

        if (text == NULL)
            return wrong(place, one, member->name, member->must, err);
        (*list)[(*count)++] = mem_strdup(text);
        if (member->take(&(*list)[*count - 1]) < 0)
            return wrong(place, one, member->name, member->must, err);
    }
    return 0;
}

static int read_push(struct config_repository *repository, const struct place *place,
                     const struct json_value *push, struct error *err)
{
    if (json_kind(push) != JSON_KIND_OBJECT)
        return wrong(place, push, "push", "an object with refs and overwrite", err);
    for (const struct json_value *member = json_first(push); member != NULL;
         member = json_next(member)) {
        bool refs = str_equal(json_name(member), "refs");

        if (refs && read_list(repository, place, &refs_member, member, err) < 0)
            return -1;
        if (refs)
            continue;
        if (!str_equal(json_name(member), "overwrite"))
            return wrong(place, member, "push", "an object with refs and overwrite", err);
        if (json_kind(member) != JSON_KIND_BOOL)
            return wrong(place, member, "push.overwrite", "true or false", err);
        repository->push_overwrite =
            json_bool(member, false) ? CONFIG_CHOICE_YES : CONFIG_CHOICE_NO;
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
        return read_list(repository, place, &services_member, member, err);
    if (str_equal(name, "egress"))
        return read_list(repository, place, &egress_member, member, err);
    if (str_equal(name, "push"))
        return read_push(repository, place, member, err);
    if (!str_equal(name, "setupMinutes"))
        return wrong(place, member, "",
                     "an object of setup, setupMinutes, filter, model, branch, services, "
                     "egress and push, nothing else",
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
        config_list_free(repository->services, repository->service_count);
        config_list_free(repository->egress, repository->egress_count);
        config_list_free(repository->push_refs, repository->push_ref_count);
    }
    free(config->repositories);
}

static void print_list(struct json_writer *writer, const char *name, char *const *list,
                       size_t count)
{
    if (list == NULL)
        return;
    json_write_name(writer, name);
    json_write_array(writer);
    for (size_t i = 0; i < count; i++)
        json_write_string(writer, list[i]);
    json_write_array_end(writer);
}

static void print_push(struct json_writer *writer, const struct config_repository *repository)
{
    if (repository->push_refs == NULL && repository->push_overwrite == CONFIG_CHOICE_NONE)
        return;
    json_write_name(writer, "push");
    json_write_object(writer);
    print_list(writer, "refs", repository->push_refs, repository->push_ref_count);
    if (repository->push_overwrite != CONFIG_CHOICE_NONE)
        json_member_bool(writer, "overwrite", repository->push_overwrite == CONFIG_CHOICE_YES);
    json_write_object_end(writer);
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
        print_list(&writer, "services", repository->services, repository->service_count);
        print_list(&writer, "egress", repository->egress, repository->egress_count);
        print_push(&writer, repository);
        json_write_object_end(&writer);
        buf_append_str(out, "  # file\n");
    }
}
