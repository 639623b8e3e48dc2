/* forge.c: the table, and requests. */
#include "forge/forge.h"

#include <string.h>

#include "common/json_write.h"
#include "common/mem.h"
#include "common/str.h"

#define BODY_MAX (1u << 20)
#define PATH_MAX_BYTES 8192

static const struct forge forges[] = {
    {
        .git_service = "github",
        .name = "GitHub",
        .thing = "pull request",
        .service = "github-api",
        .permission = "pull_requests:write (of a classic token: repo)",
        .page_size = 10,
        .write_head = "head",
        .write_base = "base",
        .write_body = "body",
        .edit_method = "PATCH",
        .number = "number",
        .url = "html_url",
        .body = "body",
        .open = "open",
        .head = "head.ref",
        .base = "base.ref",
        .head_repository = "head.repo.id",
        .base_repository = "base.repo.id",
    },
    {
        .git_service = "gitlab",
        .name = "GitLab",
        .thing = "merge request",
        .service = "gitlab",
        .prefix = "/api/v4",
        .header = "authorization",
        .before = "Bearer ",
        .permission = "scope api, and the role Developer",
        .page_size = 10,
        .write_head = "source_branch",
        .write_base = "target_branch",
        .write_body = "description",
        .draft_prefix = "Draft: ",
        .draft_by_edit = true,
        .edit_method = "PUT",
        .number = "iid",
        .url = "web_url",
        .body = "description",
        .open = "opened",
        .head = "source_branch",
        .base = "target_branch",
        .head_repository = "source_project_id",
        .base_repository = "target_project_id",
    },
    {
        .git_service = "gitea",
        .name = "Gitea",
        .thing = "pull request",
        .service = "gitea",
        .prefix = "/api/v1",
        .header = "authorization",
        .before = "token ",
        .permission = "scope write:repository",
        .page_size = 20,
        .write_head = "head",
        .write_base = "base",
        .write_body = "body",
        .draft_prefix = "WIP: ",
        .draft_by_edit = true,
        .edit_method = "PATCH",
        .number = "number",
        .url = "html_url",
        .body = "body",
        .open = "open",
        .head = "head.ref",
        .base = "base.ref",
        .head_repository = "head.repo.id",
        .base_repository = "base.repo.id",
    },
};

const char *const forge_permission_headers[] = { "x-accepted-github-permissions",
                                                 "x-accepted-oauth-scopes" };
const size_t forge_permission_header_count = ARRAY_LEN(forge_permission_headers);

const struct forge *forge_find(const char *git_service)
{
    for (size_t i = 0; i < ARRAY_LEN(forges); i++)
        if (str_equal(forges[i].git_service, git_service))
            return &forges[i];
    return NULL;
}

static void request_init(struct forge_request *request, const char *method)
{
    request->method = method;
    buf_init(&request->path, PATH_MAX_BYTES);
    buf_init(&request->body, BODY_MAX);
}

void forge_request_finish(struct forge_request *request)
{
    buf_finish(&request->path);
    buf_finish(&request->body);
}

/* All but unreserved characters are escaped. KEEP stays as well, or NUL. */
static void escape(struct buf *out, const char *text, size_t len, char keep)
{
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";

    for (size_t i = 0; i < len; i++) {
        if (memchr(plain, text[i], sizeof(plain) - 1) != NULL || (keep != '\0' && text[i] == keep))
            buf_append_char(out, text[i]);
        else
            buf_printf(out, "%%%02X", (unsigned)(unsigned char)text[i]);
    }
}

static bool is_gitlab(const struct forge *forge)
{
    return str_equal(forge->git_service, "gitlab");
}

int forge_check_repository(const struct forge *forge, const char *repository, struct error *err)
{
    size_t parts = 1;
    bool empty = repository[0] == '\0';

    for (const char *at = repository; *at != '\0'; at++) {
        parts += *at == '/';
        empty = empty || (*at == '/' && (at == repository || at[1] == '/' || at[1] == '\0'));
    }
    if (empty || parts < 2 || (parts > 2 && !is_gitlab(forge)))
        return error_set(err, ERR_INVALID, 0, "%s has no repository of the form %.100s",
                         forge->name, repository);
    return 0;
}

/* "/repos/owner/name/pulls" or "/projects/group%2Fname/merge_requests" */
static void append_place(const struct forge *forge, const char *repository, struct buf *out)
{
    buf_append_str(out, is_gitlab(forge) ? "/projects/" : "/repos/");
    escape(out, repository, strlen(repository), is_gitlab(forge) ? '\0' : '/');
    buf_append_str(out, is_gitlab(forge) ? "/merge_requests" : "/pulls");
}

void forge_list(const struct forge *forge, const char *repository, const char *head, uint32_t page,
                struct forge_request *out)
{
    request_init(out, "GET");
    append_place(forge, repository, &out->path);
    buf_printf(&out->path, "?state=%s&page=%u&%s=%u", forge->open, (unsigned)page,
               str_equal(forge->git_service, "gitea") ? "limit" : "per_page",
               (unsigned)forge->page_size);
    if (is_gitlab(forge)) {
        buf_append_str(&out->path, "&source_branch=");
        escape(&out->path, head, strlen(head), '\0');
    } else if (str_equal(forge->git_service, "github")) {
        buf_append_str(&out->path, "&head=");
        escape(&out->path, repository, strcspn(repository, "/"), '\0');
        buf_append_char(&out->path, ':');
        escape(&out->path, head, strlen(head), '\0');
    }
}

static void write_change(const struct forge *forge, const struct forge_change *change,
                         struct buf *out)
{
    struct json_writer writer;

    json_write_init(&writer, out);
    json_write_object(&writer);
    if (change->title != NULL && forge->draft_prefix != NULL) {
        AUTO_FREE
        char *title = mem_printf("%s%s", change->draft ? forge->draft_prefix : "", change->title);

        json_member_string(&writer, "title", title);
    } else if (change->title != NULL) {
        json_member_string(&writer, "title", change->title);
    }
    if (change->head != NULL)
        json_member_string(&writer, forge->write_head, change->head);
    if (change->base != NULL)
        json_member_string(&writer, forge->write_base, change->base);
    if (change->body != NULL)
        json_member_string(&writer, forge->write_body, change->body);
    if (change->sets_draft && forge->draft_prefix == NULL)
        json_member_bool(&writer, "draft", change->draft);
    json_write_object_end(&writer);
}

void forge_create(const struct forge *forge, const char *repository,
                  const struct forge_change *change, struct forge_request *out)
{
    request_init(out, "POST");
    append_place(forge, repository, &out->path);
    write_change(forge, change, &out->body);
}

void forge_edit(const struct forge *forge, const char *repository, uint64_t number,
                const struct forge_change *change, struct forge_request *out)
{
    request_init(out, forge->edit_method);
    append_place(forge, repository, &out->path);
    buf_printf(&out->path, "/%llu", (unsigned long long)number);
    write_change(forge, change, &out->body);
}

void forge_get(const struct forge *forge, const char *repository, uint64_t number,
               struct forge_request *out)
{
    request_init(out, "GET");
    append_place(forge, repository, &out->path);
    buf_printf(&out->path, "/%llu", (unsigned long long)number);
}
