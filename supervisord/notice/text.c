#include "notice/internal.h"

#include <sodium.h>
#include <string.h>

#include "common/json_write.h"
#include "common/mem.h"
#include "common/str.h"

void notice_event(const struct notice *notice, struct buf *out)
{
    buf_printf(out, "run.%s", notice->status);
}

void notice_id(const struct notice *notice, struct buf *out)
{
    buf_printf(out, "%s-%llu", notice->run_id, (unsigned long long)notice->number);
}

static void member_cut(struct json_writer *writer, const char *name, const char *text, size_t max)
{
    if (text[0] == '\0')
        return;
    json_write_name(writer, name);
    json_write_bytes(writer, text, str_utf8_cut(text, strnlen(text, max)));
}

void notice_json(const struct notice *notice, struct buf *out)
{
    AUTO_BUF struct buf event = BUF_INIT(64);
    AUTO_BUF struct buf id = BUF_INIT(128);
    struct json_writer writer;

    notice_event(notice, &event);
    notice_id(notice, &id);
    json_write_init(&writer, out);
    json_write_object(&writer);
    json_member_string(&writer, "event", buf_text(&event));
    json_member_string(&writer, "id", buf_text(&id));
    json_member_string(&writer, "runId", notice->run_id);
    json_member_string(&writer, "sessionId", notice->session_id);
    json_member_string(&writer, "status", notice->status);
    member_cut(&writer, "title", notice->title, NOTICE_LINE_MAX);
    json_member_string_opt(&writer, "repository", notice->repository);
    json_member_string_opt(&writer, "verdict", notice->verdict);
    json_member_string_opt(&writer, "code", notice->code);
    member_cut(&writer, "text", notice->text, NOTICE_TEXT_MAX);
    json_member_string_opt(&writer, "webUiUrl", notice->url);
    json_member_u64(&writer, "time", notice->time_ms);
    json_write_object_end(&writer);
}

void notice_title(const struct notice *notice, struct buf *out)
{
    AUTO_BUF struct buf title = BUF_INIT(1024);

    str_append_escaped(&title, notice->title, strcspn(notice->title, "\r\n"), NOTICE_LINE_MAX);
    if (str_equal(notice->status, "waiting"))
        buf_append_str(out, "Needs an answer");
    else
        buf_printf(out, "%c%s", notice->status[0] - 'a' + 'A', notice->status + 1);
    if (title.len > 0)
        buf_printf(out, ": %s", buf_text(&title));
}

void notice_text(const struct notice *notice, struct buf *out)
{
    const char *at = notice->text;
    size_t left = strlen(at);

    for (unsigned line = 0; line < 8 && left > 0; line++) {
        size_t len = strcspn(at, "\n");

        str_append_escaped(out, at, len, 400);
        buf_append_char(out, '\n');
        len = len < left ? len + 1 : left;
        at += len;
        left -= len;
    }
    if (notice->repository[0] != '\0') {
        str_append_escaped(out, notice->repository, strlen(notice->repository), 200);
        buf_append_char(out, '\n');
    }
    buf_printf(out, "%s\n", notice->run_id);
}

void notice_header(const char *text, struct buf *out)
{
    for (; *text != '\0'; text++) {
        unsigned char byte = (unsigned char)*text;

        if (byte >= 0x20 && byte < 0x7f)
            buf_append_char(out, *text);
        else if (byte < 0x80 || byte >= 0xc0) /* one mark a character, not one a byte */
            buf_append_char(out, '?');
    }
}

static int key_bytes(const char *key, size_t key_len, unsigned char *bytes, size_t size,
                     size_t *len)
{
    if (key_len < 6 || memcmp(key, "whsec_", 6) != 0)
        return 1;
    return sodium_base642bin(bytes, size, key + 6, key_len - 6, NULL, len, NULL,
                             sodium_base64_VARIANT_ORIGINAL) == 0
               ? 0
               : -1;
}

int notice_sign(const char *key, size_t key_len, const char *id, uint64_t seconds,
                const struct buf *body, struct buf *out)
{
    unsigned char bytes[256];
    unsigned char code[crypto_auth_hmacsha256_BYTES];
    char text[sodium_base64_ENCODED_LEN(sizeof(code), sodium_base64_VARIANT_ORIGINAL)];
    crypto_auth_hmacsha256_state state;
    AUTO_BUF struct buf head = BUF_INIT(256);
    size_t len = 0;
    int rc = key_bytes(key, key_len, bytes, sizeof(bytes), &len);

    if (rc >= 0) {
        buf_printf(&head, "%s.%llu.", id, (unsigned long long)seconds);
        crypto_auth_hmacsha256_init(&state, rc == 0 ? bytes : (const unsigned char *)key,
                                    rc == 0 ? len : key_len);
        crypto_auth_hmacsha256_update(&state, (const unsigned char *)head.data, head.len);
        crypto_auth_hmacsha256_update(&state, (const unsigned char *)body->data, body->len);
        crypto_auth_hmacsha256_final(&state, code);
        sodium_bin2base64(text, sizeof(text), code, sizeof(code), sodium_base64_VARIANT_ORIGINAL);
        buf_printf(out, "v1,%s", text);
        sodium_memzero(&state, sizeof(state));
    }
    sodium_memzero(bytes, sizeof(bytes));
    return rc >= 0 ? 0 : -1;
}
