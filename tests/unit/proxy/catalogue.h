/* catalogue.h: plays attacks against a whole proxy over real sockets, each for a run of its own,
 * and holds every one of them to the same five promises:
 *
 *   1. the real credential, written in any of the ways that are looked for, is in nothing that the
 *      client, the records, the log or a file got; the run's token is in nothing that left
 *   2. the upstream saw just the requests that the row allows, the evil one no credential
 *   3. each request and each refused connection made one record, with a reason
 *   4. descriptors and handles are back to where they were before
 *   5. it ended in time, and a good request on a new connection is served afterwards
 *
 * Ids are those of docs/proxy-attacks.md. */
#ifndef TESTS_UNIT_PROXY_CATALOGUE_H
#define TESTS_UNIT_PROXY_CATALOGUE_H

#include <ftw.h>

#include "common/log.h"
#include "unit/proxy/rig.h"

#define ATTACK_MS 20000u

enum attack_way {
    ATTACK_PLAIN,  /* to the proxy's own port */
    ATTACK_TUNNEL, /* in a tunnel to localhost:%S, behind TLS of the proxy's */
    ATTACK_BYTES,  /* as PLAIN, and a second time byte by byte */
};

struct attack {
    const char *id;
    enum attack_way way;
    const char *input;  /* as rig_fill takes it, answers too, with %K for the credential
                           and %B for it as it is sent to git */
    const char *reason; /* of the last record; NULL: any */
    int status;         /* that the client reads last; 0: a cut, or nothing */
    unsigned reached;   /* whole requests that the upstream sees */
    unsigned records;   /* 0: one */
    const char *answer; /* the upstream's, to each request; NULL: "hi". %K is the credential */
    bool cut;           /* and then it closes */
    bool reset;         /* the client's connection is cut, so that no end looks like one */
    const char *has;    /* the client reads this */
    const char *hasnot;
    const char *sent; /* the upstream reads this */
    const char *unsent;
};

/* A row: its first five members, then what else is to be said of it. */
#define ATTACK(id_, way_, input_, reason_, status_, ...)                                           \
    {                                                                                              \
        .id = (id_), .way = (way_), .input = (input_), .reason = (reason_), .status = (status_),   \
        __VA_ARGS__                                                                                \
    }

struct catalogue {
    struct rig *rig;
    struct buf log;
    struct buf secrets; /* every way to write it, each ending with NUL */
    const struct attack *attack;
};

/* Evidence
 * ----------------------------------------------------------------------------------------------
 */

static inline void catalogue_on_log(void *data, const char *line)
{
    struct catalogue *catalogue = data;

    buf_append_str(&catalogue->log, line);
}

static inline void catalogue_add_form(struct catalogue *catalogue, const char *text, size_t len)
{
    buf_append(&catalogue->secrets, text, len);
    buf_append_char(&catalogue->secrets, '\0');
}

/* What any alignment leaves of it in base64: the characters that hold bits of nothing else. */
static inline void catalogue_add_base64(struct catalogue *catalogue, unsigned before, int variant)
{
    char plain[200];
    char encoded[300];
    size_t len = strlen(RIG_SECRET);
    size_t start = (before * 8 + 5) / 6;
    size_t end = (before + len) * 8 / 6;

    memset(plain, 'x', before);
    memcpy(plain + before, RIG_SECRET, len);
    sodium_bin2base64(encoded, sizeof(encoded), (unsigned char *)plain, before + len, variant);
    catalogue_add_form(catalogue, encoded + start, end - start);
}

static inline void catalogue_add_spelt(struct catalogue *catalogue, const char *format)
{
    AUTO_BUF struct buf text = BUF_INIT(4096);
    char each[16];

    for (const char *at = RIG_SECRET; *at != '\0'; at++) {
        /* A test's own table of formats. */
        int len = strcmp(format, "%%%02X") == 0   ? snprintf(each, sizeof(each), "%%%02X", *at)
                  : strcmp(format, "%%%02x") == 0 ? snprintf(each, sizeof(each), "%%%02x", *at)
                  : strcmp(format, "%02x") == 0   ? snprintf(each, sizeof(each), "%02x", *at)
                  : strcmp(format, "%02X") == 0   ? snprintf(each, sizeof(each), "%02X", *at)
                                                  : snprintf(each, sizeof(each), "\\u%04x", *at);

        buf_append(&text, each, (size_t)len);
    }
    catalogue_add_form(catalogue, text.data, text.len);
}

static inline void catalogue_init(struct catalogue *catalogue, struct rig *rig)
{
    static const char *const spelt[] = { "%%%02X", "%%%02x", "%02x", "%02X", "\\u%04x" };

    catalogue->rig = rig;
    buf_init(&catalogue->log, 1u << 20);
    buf_init(&catalogue->secrets, 1u << 16);
    catalogue_add_form(catalogue, RIG_SECRET, strlen(RIG_SECRET));
    for (unsigned before = 0; before < 3; before++) {
        catalogue_add_base64(catalogue, before, sodium_base64_VARIANT_ORIGINAL);
        catalogue_add_base64(catalogue, before, sodium_base64_VARIANT_URLSAFE);
    }
    for (size_t i = 0; i < ARRAY_LEN(spelt); i++)
        catalogue_add_spelt(catalogue, spelt[i]);
    log_set_sink(catalogue_on_log, catalogue);
}

static inline void catalogue_finish(struct catalogue *catalogue)
{
    log_set_sink(NULL, NULL);
    buf_finish(&catalogue->log);
    buf_finish(&catalogue->secrets);
}

/* Says which row it is before the check's own words. */
static inline void catalogue_require(const struct catalogue *catalogue, bool good, const char *what)
{
    const struct attack *attack = catalogue->attack;

    if (good)
        return;
    fprintf(stderr, "%s: %s\n--- input\n%s\n", attack->id, what, attack->input);
    if (catalogue->rig->decision_count > 0)
        for (unsigned i = 0; i < catalogue->rig->decision_count; i++)
            fprintf(stderr, "--- record: %s %s %s %u\n", catalogue->rig->decisions[i].method,
                    catalogue->rig->decisions[i].path, catalogue->rig->decisions[i].reason,
                    catalogue->rig->decisions[i].status);
    CHECK_FAILED(what);
}

/* Promise 1 for one place. */
static inline bool catalogue_clean(const struct catalogue *catalogue, const char *bytes, size_t len)
{
    size_t at = 0;

    while (at < catalogue->secrets.len) {
        const char *form = catalogue->secrets.data + at;
        size_t form_len = strlen(form);

        if (len >= form_len && memmem(bytes, len, form, form_len) != NULL)
            return false;
        at += form_len + 1;
    }
    return true;
}

static struct catalogue *catalogue_walked; /* nftw takes no data */
static bool catalogue_files_clean;

static inline int catalogue_on_file(const char *path, const struct stat *info, int kind,
                                    struct FTW *where)
{
    AUTO_FREE
    char *text = NULL;
    size_t len;
    struct error err = ERROR_INIT;

    (void)info;
    (void)where;
    if (kind == FTW_F && fd_read_file(path, 16u << 20, &text, &len, &err) == 0 &&
        !catalogue_clean(catalogue_walked, text, len))
        catalogue_files_clean = false;
    return 0;
}

static inline void catalogue_check_leaks(struct catalogue *catalogue, const struct buf *read)
{
    struct rig *rig = catalogue->rig;

    catalogue_require(catalogue, catalogue_clean(catalogue, buf_text(read), read->len),
                      "the client got no credential");
    catalogue_require(catalogue,
                      catalogue_clean(catalogue, (char *)rig->decisions,
                                      sizeof(rig->decisions[0]) * rig->decision_count),
                      "the records have no credential");
    catalogue_require(catalogue,
                      memmem(rig->decisions, sizeof(rig->decisions[0]) * rig->decision_count,
                             rig->token, strlen(rig->token)) == NULL,
                      "the records have no token");
    catalogue_require(catalogue,
                      catalogue_clean(catalogue, buf_text(&catalogue->log), catalogue->log.len),
                      "the log has no credential");
    catalogue_require(catalogue,
                      catalogue_clean(catalogue, buf_text(&rig->evil_seen), rig->evil_seen.len),
                      "the evil upstream got no credential");
    catalogue_require(catalogue, strstr(buf_text(&rig->evil_seen), rig->token) == NULL,
                      "the evil upstream got no token");
    catalogue_require(catalogue,
                      memmem(buf_text(&rig->seen), rig->seen.len, rig->token, strlen(rig->token)) ==
                          NULL,
                      "the token stayed here");
    catalogue_walked = catalogue;
    catalogue_files_clean = true;
    nftw(tmp_dir(), catalogue_on_file, 8, FTW_PHYS);
    catalogue_require(catalogue, catalogue_files_clean, "no file has the credential");
}

/* Playing
 * -----------------------------------------------------------------------------------------------
 */

static const struct attack *catalogue_now;

static inline void catalogue_add_credential(struct buf *text, char form)
{
    static const char plain[] = "x-access-token:" RIG_SECRET;
    char encoded[128];

    if (form == 'K') {
        buf_append_str(text, RIG_SECRET);
        return;
    }
    sodium_bin2base64(encoded, sizeof(encoded), (const unsigned char *)plain, strlen(plain),
                      sodium_base64_VARIANT_ORIGINAL);
    buf_append_str(text, encoded);
}

static inline void catalogue_answer(struct rig_upstream *upstream, const char *request)
{
    const struct attack *attack = catalogue_now;
    AUTO_BUF struct buf text = BUF_INIT(8u << 20);

    if (attack == NULL || attack->answer == NULL) {
        rig_default_script(upstream, request);
        return;
    }
    AUTO_FREE
    char *filled = rig_fill(upstream->rig, attack->answer);
    for (const char *at = filled; *at != '\0'; at++)
        if (at[0] == '%' && (at[1] == 'K' || at[1] == 'B'))
            catalogue_add_credential(&text, *++at);
        else
            buf_append_char(&text, *at);
    stream_write(upstream->stream, text.data, text.len);
    if (attack->cut)
        rig_upstream_close(upstream);
}

static inline void catalogue_new_run(struct rig *rig)
{
    const struct proxy_repository own = { .service = "github", .path = "/o/r.git", .branch = "" };
    struct proxy_grant grant = { .run_id = "run_1", .repositories = &own, .repository_count = 1 };
    struct error err = ERROR_INIT;
    int fd = listener_tcp_socket("127.0.0.1", 0, &rig->proxy_port, &err);

    CHECK(fd >= 0);
    CHECK_EQ(proxy_grant_run(rig->proxy, &grant, rig->token, rig->hash, &err), 0);
    CHECK_EQ(proxy_attach(rig->proxy, "run_1", fd, &err), 0);
}

/* Status of the last answer in what the client read; 0 without one. */
static inline int catalogue_status(const struct buf *read)
{
    const char *found = NULL;

    for (const char *at = buf_text(read); (at = strstr(at, "HTTP/1.1 ")) != NULL; at += 9)
        if (strncmp(at, "HTTP/1.1 100", 12) != 0 && strspn(at + 9, "0123456789") == 3)
            found = at;
    return found != NULL ? (int)strtoul(found + 9, NULL, 10) : 0;
}

static inline void catalogue_send(struct rig *rig, struct rig_client *client, const char *input,
                                  bool bytes)
{
    AUTO_FREE
    char *text = rig_fill(rig, input);
    size_t len = strlen(text);

    if (!bytes) {
        CHECK(stream_write(client->stream, text, len));
        return;
    }
    for (size_t i = 0; i < len && !client->ended; i++) {
        if (!stream_write(client->stream, text + i, 1))
            break;
        uv_run(&rig->loop, UV_RUN_NOWAIT);
    }
}

/* Promise 5: also the barrier behind which nothing of the row is under way. */
static inline void catalogue_check_service(struct catalogue *catalogue)
{
    struct rig *rig = catalogue->rig;
    AUTO_FREE
    char *answer = NULL;

    catalogue_now = NULL;
    answer = rig_ask(rig, "GET /proxy/anthropic/after HTTP/1.1\r\nHost: p\r\nx-api-key: "
                          "%T\r\n\r\n");
    catalogue_require(catalogue, strncmp(answer, "HTTP/1.1 200 ", 13) == 0,
                      "a good request is served afterwards");
}

/* What is made once and kept, such as the resolver's threads, is made before anything is counted.
 */
static inline void catalogue_warm(struct rig *rig)
{
    catalogue_new_run(rig);
    free(rig_ask(rig, "GET /proxy/anthropic/x HTTP/1.1\r\nHost: p\r\nx-api-key: %T\r\n\r\n"));
    rig_hang_up(rig_tunnel_tls(rig, "localhost:%S", "localhost", rig->tls_client));
    proxy_revoke(rig->proxy, "run_1");
    for (int i = 0; i < 200; i++)
        uv_run(&rig->loop, UV_RUN_NOWAIT);
    rig_forget(rig);
}

static inline void catalogue_play(struct catalogue *catalogue, const struct attack *attack,
                                  bool bytes)
{
    struct rig *rig = catalogue->rig;
    unsigned handles = rig_handles(rig);
    unsigned descriptors = rig_descriptors();
    unsigned tunnel = attack->way == ATTACK_TUNNEL ? 1 : 0;
    unsigned records = (attack->records > 0 ? attack->records : 1) + tunnel;
    unsigned reached = rig->requests + attack->reached;
    struct rig_client *client;

    catalogue->attack = attack;
    uv_timer_start(&rig->watchdog, rig_on_watchdog, ATTACK_MS, 0);
    catalogue_new_run(rig);
    catalogue_now = attack;
    rig->script = catalogue_answer;
    client = tunnel ? rig_tunnel_tls(rig, "localhost:%S", "localhost", rig->tls_client)
                    : rig_connect(rig);
    catalogue_send(rig, client, attack->input, bytes);
    while (!rig->late && (rig->decision_count < records ||
                          !(client->ended ||
                            (!attack->reset && catalogue_status(&client->in) == attack->status))))
        uv_run(&rig->loop, UV_RUN_ONCE);
    catalogue_require(catalogue, !rig->late, "it ended in time");
    struct rig_decision last = rig->decisions[records - 1];
    catalogue_check_service(catalogue);
    catalogue_require(catalogue, rig->decision_count == records + 1, "one record each");
    for (unsigned i = 0; i < rig->decision_count; i++)
        catalogue_require(catalogue, rig->decisions[i].reason[0] != '\0', "records have a reason");
    catalogue_require(catalogue, attack->reason == NULL || strcmp(last.reason, attack->reason) == 0,
                      attack->reason);
    if (catalogue_status(&client->in) != attack->status)
        fprintf(stderr, "--- answer\n%s\n", buf_text(&client->in));
    catalogue_require(catalogue, catalogue_status(&client->in) == attack->status, "its status");
    catalogue_require(catalogue, rig->requests == reached + 1, "the upstream saw what it may");
    catalogue_require(catalogue,
                      attack->has == NULL || strstr(buf_text(&client->in), attack->has) != NULL,
                      attack->has);
    catalogue_require(catalogue,
                      attack->hasnot == NULL ||
                          strcasestr(buf_text(&client->in), attack->hasnot) == NULL,
                      attack->hasnot);
    catalogue_require(catalogue,
                      attack->sent == NULL || strstr(buf_text(&rig->seen), attack->sent) != NULL,
                      attack->sent);
    catalogue_require(catalogue,
                      attack->unsent == NULL ||
                          strcasestr(buf_text(&rig->seen), attack->unsent) == NULL,
                      attack->unsent);
    /* libuv makes a plain end of a reset that comes behind data, so what is looked for is the
     * message's own end. */
    catalogue_require(catalogue,
                      !attack->reset ||
                          (client->ended && strstr(buf_text(&client->in), "\r\n0\r\n\r\n") == NULL),
                      "it was cut");
    catalogue_check_leaks(catalogue, &client->in);
    rig_hang_up(client);
    proxy_revoke(rig->proxy, "run_1");
    while (!rig->late && (rig_handles(rig) > handles || rig_descriptors() > descriptors))
        uv_run(&rig->loop, UV_RUN_ONCE);
    if (rig->late)
        fprintf(stderr, "handles %u, were %u; descriptors %u, were %u\n", rig_handles(rig), handles,
                rig_descriptors(), descriptors);
    catalogue_require(catalogue, !rig->late, "handles and descriptors are given back");
    rig_forget(rig);
    buf_clear(&catalogue->log);
    buf_clear(&rig->evil_seen);
}

/* All of LIST twice: nothing of the heap may stay with the second round. PREPARE may be NULL. */
static inline void catalogue_run_with(void (*prepare)(struct rig *rig), const struct attack *list,
                                      size_t count, const struct proxy_options *options)
{
    struct rig *rig = rig_start(options);
    struct catalogue catalogue = { 0 };
    size_t heap = 0;

    proxy_revoke(rig->proxy, "run_1");
    if (prepare != NULL)
        prepare(rig);
    catalogue_warm(rig);
    catalogue_init(&catalogue, rig);
    for (unsigned round = 0; round < 2; round++) {
        for (size_t i = 0; i < count; i++)
            catalogue_play(&catalogue, &list[i], round == 1 && list[i].way == ATTACK_BYTES);
        if (round == 0)
            heap = rig_heap_bytes();
    }
    CHECK(rig_heap_bytes() < heap + (64u << 10));
    catalogue_finish(&catalogue);
    rig_stop(rig);
}

static inline void catalogue_run(const struct attack *list, size_t count,
                                 const struct proxy_options *options)
{
    catalogue_run_with(NULL, list, count, options);
}

#endif
