/* cmd_out.c: how a session's work comes out: files, cat, export, pull, pr. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/fd.h"
#include "common/mem.h"
#include "common/str.h"
#include "ctl/bring.h"
#include "ctl/commands.h"
#include "ctl/git_here.h"
#include "ctl/print.h"
#include "ctl/target.h"

#define BODY_MAX (1u << 20)
#define LIST_MAX (32u << 20)
#define CAT_MAX (64u << 20)
#define PATCH_BYTES_MAX (256u << 20)
#define BUNDLE_MAX (UINT64_C(4) << 30)

/* Taking
 * ---------------------------------------------------------------------------------------------- */

struct taking {
    const char *what;
    const char *path;       /* NULL: all */
    const struct buf *have; /* commits, a line each; NULL */
    uint64_t max_bytes;     /* 0: the supervisor's */
    /* -1 with ERR ends it. */
    int (*sink)(void *data, const char *bytes, size_t len, struct error *err);
    void *data;
    /* Filled. */
    char branch[256];
    char head[72];
    char base[72];
    uint64_t uncommitted;
    uint64_t bytes;
    bool truncated;
};

static void write_have(struct json_writer *writer, const struct buf *have)
{
    const char *line = buf_text(have);

    json_write_name(writer, "have");
    json_write_array(writer);
    while (*line != '\0') {
        size_t len = strcspn(line, "\n");

        json_write_bytes(writer, line, len);
        line += len + (line[len] == '\n');
    }
    json_write_array_end(writer);
}

static int send_take(struct session *session, const struct taking *taking, struct error *err)
{
    AUTO_BUF struct buf id = BUF_INIT(256);
    AUTO_BUF struct buf body = BUF_INIT(BODY_MAX);
    struct json_writer writer;

    if (target_either(session, session->args.words[0], &id, err) < 0)
        return -1;
    json_write_init(&writer, &body);
    json_write_object(&writer);
    json_member_string(&writer, "what", taking->what);
    json_member_string(&writer, target_member(buf_text(&id)), buf_text(&id));
    json_member_string_opt(&writer, "path", taking->path);
    if (taking->have != NULL)
        write_have(&writer, taking->have);
    json_member_u64_opt(&writer, "maxBytes", taking->max_bytes);
    json_write_object_end(&writer);
    client_take_blobs(session->client);
    return client_send(session->client, "files.take", buf_text(&body), NULL, 0, err) == 0 ? -1 : 0;
}

static void read_source(struct taking *taking, const struct json_value *source)
{
    const char *branch = json_string(json_get(source, "branch"));
    const char *head = json_string(json_get(source, "headCommit"));
    const char *base = json_string(json_get(source, "baseCommit"));

    str_copy(taking->branch, sizeof(taking->branch), branch != NULL ? branch : "");
    str_copy(taking->head, sizeof(taking->head), head != NULL ? head : "");
    str_copy(taking->base, sizeof(taking->base), base != NULL ? base : "");
    taking->uncommitted = json_u64(json_get(source, "uncommitted"), 0);
}

static int read_end(struct taking *taking, const struct json_value *end, struct error *err)
{
    const struct json_value *error = json_get(end, "error");
    const char *code = json_string(json_get(error, "code"));
    const char *text = json_string(json_get(error, "message"));

    if (error != NULL)
        return error_set(err, error_code_parse(code != NULL ? code : ""), 0, "%s",
                         text != NULL ? text : "it failed");
    taking->bytes = json_u64(json_get(end, "bytes"), 0);
    taking->truncated = json_bool(json_get(end, "truncated"), false);
    return 1;
}

/* 1: it is over; 0: it goes on. */
static int take_message(struct taking *taking, const struct client_message *message,
                        struct error *err)
{
    if (message->doc == NULL)
        return taking->sink(taking->data, message->text, message->len, err);
    switch (message->envelope.kind) {
    case ENVELOPE_REPLY:
        read_source(taking, message->envelope.body);
        return 0;
    case ENVELOPE_END:
        return read_end(taking, message->envelope.body, err);
    case ENVELOPE_ERROR:
        *err = message->envelope.error;
        return -1;
    case ENVELOPE_EVENT:
    case ENVELOPE_REQUEST:
    case ENVELOPE_CANCEL:
        break;
    }
    return 0;
}

static int take(struct session *session, struct taking *taking, struct error *err)
{
    int rc = send_take(session, taking, err);

    while (rc == 0) {
        struct client_message message;
        int got = client_next(session->client, -1, &message, err);

        if (got < 0)
            return -1;
        if (got == 0)
            continue;
        rc = take_message(taking, &message, err);
        client_message_finish(&message);
    }
    return rc < 0 ? -1 : 0;
}

static int sink_buffer(void *data, const char *bytes, size_t len, struct error *err)
{
    struct buf *to = data;

    buf_append(to, bytes, len);
    return to->failed ? error_set(err, ERR_LIMIT, 0, "there is more than can be taken") : 0;
}

static int sink_file(void *data, const char *bytes, size_t len, struct error *err)
{
    return fd_write_all(*(const int *)data, bytes, len, err);
}

/* files
 * --------------------------------------------------------------------------------------------- */

struct entry {
    char type;
    uint64_t size;
    uint64_t seconds;
    const char *path;
};

/* "f 12 1700000000 ./a/b" and a NUL; its length with the NUL, 0 when it isn't one. */
static size_t read_entry(const char *text, size_t len, struct entry *entry)
{
    const char *end = memchr(text, '\0', len);
    char *at = NULL;

    if (end == NULL || end - text < 6 || text[1] != ' ')
        return 0;
    entry->type = text[0];
    entry->size = strtoull(text + 2, &at, 10);
    entry->seconds = *at == ' ' ? strtoull(at + 1, &at, 10) : 0;
    entry->path = at + (*at == ' ');
    if (str_starts(entry->path, "./"))
        entry->path += 2;
    return (size_t)(end - text) + 1;
}

static void print_entry(struct buf *out, const struct entry *entry)
{
    char when[32];
    time_t seconds = (time_t)entry->seconds;
    struct tm tm;

    localtime_r(&seconds, &tm);
    strftime(when, sizeof(when), "%Y-%m-%d %H:%M", &tm);
    buf_printf(out, "%c %10llu  %s  ", entry->type == 'f' ? '-' : entry->type,
               (unsigned long long)entry->size, when);
    print_line(out, entry->path, 4096);
    buf_append_char(out, '\n');
}

static void write_entry(struct json_writer *writer, const struct entry *entry)
{
    const char type[2] = { entry->type, '\0' };

    json_write_object(writer);
    json_member_string(writer, "path", entry->path);
    json_member_string(writer, "type",
                       entry->type == 'f'   ? "file"
                       : entry->type == 'd' ? "folder"
                       : entry->type == 'l' ? "link"
                                            : type);
    json_member_u64(writer, "size", entry->size);
    json_member_u64(writer, "modified", entry->seconds * 1000);
    json_write_object_end(writer);
}

static int compare_entries(const void *a, const void *b)
{
    return strcmp(((const struct entry *)a)->path, ((const struct entry *)b)->path);
}

/* By name. As many as COUNT says; the last one of a list that was cut is left out. */
static struct entry *sort_entries(const struct buf *list, size_t *count)
{
    struct entry *entries;
    struct entry entry;
    size_t used;

    *count = 0;
    for (size_t at = 0; (used = read_entry(list->data + at, list->len - at, &entry)) > 0;
         at += used)
        (*count)++;
    entries = mem_new_zero(*count + 1, sizeof(*entries));
    for (size_t at = 0, i = 0; i < *count; i++)
        at += read_entry(list->data + at, list->len - at, &entries[i]);
    qsort(entries, *count, sizeof(*entries), compare_entries);
    return entries;
}

static void show_files(const struct session *session, const struct buf *list, bool truncated)
{
    AUTO_BUF struct buf text = BUF_INIT(256u << 20);
    struct json_writer writer;
    size_t count;
    AUTO_FREE
    struct entry *entries = sort_entries(list, &count);

    json_write_init(&writer, &text);
    if (session->json) {
        json_write_object(&writer);
        json_write_name(&writer, "files");
        json_write_array(&writer);
    }
    for (size_t i = 0; i < count; i++) {
        if (session->json)
            write_entry(&writer, &entries[i]);
        else
            print_entry(&text, &entries[i]);
    }
    if (session->json) {
        json_write_array_end(&writer);
        json_member_bool(&writer, "truncated", truncated);
        json_write_object_end(&writer);
        buf_append_char(&text, '\n');
    } else if (truncated) {
        buf_append_str(&text, "There are more: name a folder.\n");
    }
    session_print(&text);
}

int cmd_files(struct session *session, struct error *err)
{
    AUTO_BUF struct buf list = BUF_INIT(LIST_MAX + 4096);
    struct taking taking = { .what = "list",
                             .path = session->args.word_count > 1 ? session->args.words[1] : NULL,
                             .max_bytes = LIST_MAX,
                             .sink = sink_buffer,
                             .data = &list };

    if (take(session, &taking, err) < 0)
        return -1;
    show_files(session, &list, taking.truncated);
    return EXIT_DONE;
}

/* cat
 * -----------------------------------------------------------------------------------------------
 */

/* To a terminal control characters don't go; to a program everything does. */
static int sink_stdout(void *data, const char *bytes, size_t len, struct error *err)
{
    const struct session *session = data;
    AUTO_BUF struct buf text = BUF_INIT(1u << 20);

    if (!session->out_terminal)
        return fwrite(bytes, 1, len, stdout) == len
                   ? 0
                   : error_set(err, ERR_SYSTEM, errno, "standard output");
    for (size_t at = 0; at < len;) {
        const char *end = memchr(bytes + at, '\n', len - at);
        size_t line = end != NULL ? (size_t)(end - bytes) - at : len - at;

        str_append_escaped(&text, bytes + at, line, line);
        if (end != NULL)
            buf_append_char(&text, '\n');
        at += line + 1;
    }
    session_print(&text);
    return 0;
}

int cmd_cat(struct session *session, struct error *err)
{
    const struct args *args = &session->args;
    struct taking taking = { .what = "read",
                             .path = args->words[1],
                             .max_bytes =
                                 args->has[ARGS_MAX_BYTES] ? args->number[ARGS_MAX_BYTES] : CAT_MAX,
                             .sink = sink_stdout,
                             .data = session };

    if (take(session, &taking, err) < 0)
        return -1;
    if (fflush(stdout) != 0)
        return error_set(err, ERR_SYSTEM, errno, "standard output");
    if (taking.truncated && !args->has[ARGS_MAX_BYTES])
        return error_set(err, ERR_LIMIT, 0, "the file is longer; --max-bytes takes more of it");
    return EXIT_DONE;
}

/* export
 * ------------------------------------------------------------------------------------------- */

static void told(const struct session *session, const char *member, const char *value,
                 uint64_t bytes)
{
    AUTO_BUF struct buf text = BUF_INIT(64u << 10);
    struct json_writer writer;

    if (session->json) {
        json_write_init(&writer, &text);
        json_write_object(&writer);
        json_member_string(&writer, member, value);
        json_member_u64(&writer, "bytes", bytes);
        json_write_object_end(&writer);
    } else {
        print_line(&text, value, 4096);
    }
    buf_append_char(&text, '\n');
    session_print(&text);
}

static int refuse_cut(const struct taking *taking, struct error *err)
{
    return taking->truncated ? error_set(err, ERR_LIMIT, 0,
                                         "there are more than %llu bytes; --max-bytes takes more",
                                         (unsigned long long)taking->bytes)
                             : 0;
}

static int export_to_file(struct session *session, struct taking *taking, const char *file,
                          struct error *err)
{
    int fd = open(file, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0666);
    int rc;

    if (fd < 0)
        return error_set(
            err, errno == EEXIST ? ERR_CONFLICT : ERR_SYSTEM, errno == EEXIST ? 0 : errno,
            errno == EEXIST ? "%.200s is there already, and nothing is overwritten" : "open %.200s",
            file);
    taking->sink = sink_file;
    taking->data = &fd;
    rc = take(session, taking, err);
    if (rc == 0)
        rc = refuse_cut(taking, err);
    if (close(fd) < 0 && rc == 0)
        rc = error_set(err, ERR_SYSTEM, errno, "write %.200s", file);
    if (rc < 0)
        unlink(file);
    else
        told(session, "file", file, taking->bytes);
    return rc;
}

/* Only what is empty can be filled without harm: an empty folder can be removed. */
static int make_folder(const char *folder, struct error *err)
{
    if (rmdir(folder) < 0 && errno != ENOENT)
        return error_set(err, ERR_CONFLICT, 0,
                         "%.200s is there and not empty, and nothing is overwritten", folder);
    return mkdir(folder, 0777) < 0 ? error_set(err, ERR_SYSTEM, errno, "make %.200s", folder) : 0;
}

static int export_to_folder(struct session *session, struct taking *taking, const char *folder,
                            struct error *err)
{
    struct error local = ERROR_INIT;
    int ends[2];
    int child;
    int rc;

    if (make_folder(folder, err) < 0)
        return -1;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return error_set(err, ERR_SYSTEM, errno, "pipe");
    rc = bring_unpack(folder, ends[0], &child, err);
    close(ends[0]);
    if (rc == 0) {
        signal(SIGPIPE, SIG_IGN); /* tar says itself what is wrong */
        taking->sink = sink_file;
        taking->data = &ends[1];
        rc = take(session, taking, err);
        close(ends[1]);
        if (bring_wait(child, "tar", &local) < 0) {
            *err = local;
            rc = -1;
        }
    } else {
        close(ends[1]);
    }
    if (rc == 0)
        rc = refuse_cut(taking, err);
    if (rc == 0)
        told(session, "folder", folder, taking->bytes);
    return rc;
}

static bool is_folder(const char *path)
{
    struct stat st;

    return str_ends(path, "/") || (stat(path, &st) == 0 && S_ISDIR(st.st_mode));
}

int cmd_export(struct session *session, struct error *err)
{
    const struct args *args = &session->args;
    const char *to = args->words[1];
    struct taking taking = { .what = "archive",
                             .path = args->text[ARGS_PATH],
                             .max_bytes = args->number[ARGS_MAX_BYTES] };
    int rc;

    if (str_equal(to, "-")) {
        int out = STDOUT_FILENO;

        if (session->out_terminal)
            return error_set(err, ERR_INVALID, 0,
                             "an archive is nothing for a terminal: name a FILE, or pipe it on");
        taking.sink = sink_file;
        taking.data = &out;
        rc = take(session, &taking, err);
        return rc == 0 && refuse_cut(&taking, err) == 0 ? EXIT_DONE : -1;
    }
    rc = is_folder(to) ? export_to_folder(session, &taking, to, err)
                       : export_to_file(session, &taking, to, err);
    return rc < 0 ? -1 : EXIT_DONE;
}

/* pull
 * --------------------------------------------------------------------------------------------- */

/* A file that nobody else can open, and its name. */
static int open_scratch(char **name, struct error *err)
{
    int fd;

    *name = git_here_scratch();
    fd = mkostemp(*name, O_CLOEXEC);
    return fd < 0 ? error_set(err, ERR_SYSTEM, errno, "make %s", *name) : fd;
}

static void told_branch(const struct session *session, const struct taking *taking,
                        const char *branch)
{
    AUTO_BUF struct buf text = BUF_INIT(64u << 10);
    struct json_writer writer;

    if (session->json) {
        json_write_init(&writer, &text);
        json_write_object(&writer);
        json_member_string(&writer, "branch", branch);
        json_member_string(&writer, "commit", taking->head);
        json_member_u64(&writer, "uncommitted", taking->uncommitted);
        json_write_object_end(&writer);
        buf_append_char(&text, '\n');
    } else {
        buf_printf(&text, "branch %s at %.12s\n", branch, taking->head);
        if (taking->uncommitted > 0)
            buf_printf(&text,
                       "not part of it: %llu file%s changed but not committed; --apply brings %s\n",
                       (unsigned long long)taking->uncommitted, taking->uncommitted == 1 ? "" : "s",
                       taking->uncommitted == 1 ? "it" : "them");
    }
    session_print(&text);
}

/* A name that the session gave makes a new branch only: it must not move one of the user's. */
static int check_branch(const struct session *session, const char *top, const char *branch,
                        struct error *err)
{
    bool there = false;

    if (bring_check_branch(top, branch, &there, err) < 0)
        return -1;
    return there && !session->args.has[ARGS_BRANCH]
               ? error_set(err, ERR_CONFLICT, 0,
                           "there is a branch %.60s here already; --branch %.60s moves it forward "
                           "if nothing else is on it, another name makes another branch",
                           branch, branch)
               : 0;
}

/* A branch that is what the session began with would say nothing. */
static int refuse_no_commits(const struct taking *taking, struct error *err)
{
    if (taking->base[0] == '\0' || !str_equal(taking->base, taking->head))
        return 0;
    return error_set(err, ERR_CONFLICT, 0,
                     taking->uncommitted > 0
                         ? "the session has no commits; --apply brings the files that it changed"
                         : "the session has no commits, and no file is changed");
}

static int pull_branch(struct session *session, const char *top, int fd, const char *scratch,
                       struct error *err)
{
    AUTO_BUF struct buf tips = BUF_INIT(BODY_MAX);
    const char *wanted = session->args.text[ARGS_BRANCH];
    struct taking taking = {
        .what = "bundle", .have = &tips, .max_bytes = BUNDLE_MAX, .sink = sink_file, .data = &fd
    };

    if (wanted != NULL && check_branch(session, top, wanted, err) < 0)
        return -1;
    if (bring_list_tips(top, &tips, err) < 0 || take(session, &taking, err) < 0 ||
        refuse_cut(&taking, err) < 0 || refuse_no_commits(&taking, err) < 0)
        return -1;
    if (wanted == NULL) {
        wanted = taking.branch;
        if (wanted[0] == '\0')
            return error_set(err, ERR_INVALID, 0,
                             "HEAD is on no branch; give a name with --branch");
        if (check_branch(session, top, wanted, err) < 0)
            return -1;
    }
    if ((taking.bytes > 0 ? bring_bundle(top, scratch, wanted, taking.head, err)
                          : bring_known(top, wanted, taking.head, err)) < 0)
        return -1;
    told_branch(session, &taking, wanted);
    return 0;
}

static int pull_patch(struct session *session, const char *top, int fd, const char *scratch,
                      struct error *err)
{
    AUTO_BUF struct buf text = BUF_INIT(4096);
    struct taking taking = { .what = "patch",
                             .path = session->args.text[ARGS_PATH],
                             .max_bytes = PATCH_BYTES_MAX,
                             .sink = sink_file,
                             .data = &fd };
    const struct bring_patch bring = { .top = top, .patch = scratch, .base = taking.base };
    struct bring_patched patched = { .files = 0 };

    if (take(session, &taking, err) < 0 || refuse_cut(&taking, err) < 0)
        return -1;
    if (taking.bytes > 0 && bring_patch(&bring, &patched, err) < 0)
        return -1;
    if (session->json)
        buf_printf(&text, "{\"files\":%zu,\"merged\":%s}\n", patched.files,
                   patched.merged ? "true" : "false");
    else
        buf_printf(&text, "%zu files changed%s\n", patched.files,
                   patched.merged ? ", merged with what has changed here" : "");
    session_print(&text);
    return 0;
}

int cmd_pull(struct session *session, struct error *err)
{
    AUTO_BUF struct buf top = BUF_INIT(8192);
    AUTO_FREE
    char *scratch = NULL;
    int fd;
    int rc;

    if (bring_find_repository(&top, err) < 0)
        return -1;
    fd = open_scratch(&scratch, err);
    if (fd < 0)
        return -1;
    rc = session->args.has[ARGS_APPLY] ? pull_patch(session, buf_text(&top), fd, scratch, err)
                                       : pull_branch(session, buf_text(&top), fd, scratch, err);
    close(fd);
    unlink(scratch);
    return rc < 0 ? -1 : EXIT_DONE;
}

/* pr
 * -----------------------------------------------------------------------------------------------
 */

static void write_pr(const struct session *session, const char *id, struct buf *body)
{
    const struct args *args = &session->args;
    struct json_writer writer;

    json_write_init(&writer, body);
    json_write_object(&writer);
    json_member_string(&writer, "sessionId", id);
    json_member_string_opt(&writer, "title", args->text[ARGS_TITLE]);
    json_member_string_opt(&writer, "body", args->text[ARGS_BODY]);
    json_member_string_opt(&writer, "base", args->text[ARGS_BASE]);
    json_member_bool(&writer, "draft", !args->has[ARGS_READY]);
    json_member_bool(&writer, "commit", args->has[ARGS_COMMIT]);
    json_write_object_end(&writer);
}

static void show_pr(const struct session *session, const struct json_value *view)
{
    AUTO_BUF struct buf text = BUF_INIT(256u << 10);
    const char *message = json_string(json_get(view, "message"));

    if (session->json) {
        session_print_json(view);
        return;
    }
    print_line(&text, message != NULL ? message : "", 4096);
    buf_append_char(&text, '\n');
    for (const struct json_value *one = json_first(json_get(view, "uncommittedFiles")); one != NULL;
         one = json_next(one)) {
        buf_append_str(&text, "  ");
        const char *path = json_string(json_get(one, "path"));

        print_line(&text, path != NULL ? path : "", 400);
        buf_append_char(&text, '\n');
    }
    session_print(&text);
}

int cmd_pr(struct session *session, struct error *err)
{
    AUTO_BUF struct buf body = BUF_INIT(BODY_MAX);
    AUTO_BUF struct buf id = BUF_INIT(1024);
    struct client_message message;
    bool working;
    bool failed;

    if (target_session(session, session->args.words[0], &id, err) < 0)
        return -1;
    write_pr(session, buf_text(&id), &body);
    do {
        if (session_call(session, "pr.create", &body, &message, err) < 0)
            return -1;
        working = str_equal(json_string(json_get(message.envelope.body, "status")), "working");
        failed = json_get(message.envelope.body, "problem") != NULL;
        if (!working)
            show_pr(session, message.envelope.body);
        client_message_finish(&message);
    } while (working);
    return failed ? EXIT_FAILED : EXIT_DONE;
}
