/* git_wire.c: the commands of a push as they stand on the wire (gitprotocol-pack, "Reference update
 * request"), and the report that answers them. */
#include "common/mem.h"
#include "common/str.h"
#include "proxy/git_rules.h"
#include "proxy/pktline.h"

#define REPORT_MAX (1u << 20)

/* Commands
 * ------------------------------------------------------------------------------------------- */

/* 40 or 64 hex digits in lower case; 0 when TEXT does not begin with such an id. */
static size_t id_len(const char *text, size_t len)
{
    size_t digits = 0;

    while (digits < len && ((text[digits] >= '0' && text[digits] <= '9') ||
                            (text[digits] >= 'a' && text[digits] <= 'f')))
        digits++;
    return digits == 40 || digits == 64 ? digits : 0;
}

/* A report names the ref again, so it may hold nothing that would end a line. */
static bool ref_printable(const char *ref, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)ref[i] < 0x20 || ref[i] == 0x7f)
            return false;
    return len > 0 && len <= 1024;
}

/* "OLD NEW REF" */
static bool parse_command(const char *text, size_t len, struct git_command *out)
{
    size_t old_len = id_len(text, len);
    size_t new_at = old_len + 1;
    size_t ref_at = 2 * old_len + 2;

    if (old_len == 0 || len <= ref_at || text[old_len] != ' ' ||
        id_len(text + new_at, len - new_at) != old_len || text[ref_at - 1] != ' ' ||
        !ref_printable(text + ref_at, len - ref_at))
        return false;
    *out = (struct git_command){ .ref = mem_strndup(text + ref_at, len - ref_at) };
    memcpy(out->old_id, text, old_len);
    memcpy(out->new_id, text + new_at, old_len);
    return true;
}

static bool is_word(const char *word, size_t len, const char *name)
{
    return strlen(name) == len && memcmp(word, name, len) == 0;
}

static const char *parse_capabilities(const char *text, size_t len, struct git_push_head *out)
{
    size_t at = 0;

    while (at < len) {
        const char *space = memchr(text + at, ' ', len - at);
        size_t word = space != NULL ? (size_t)(space - text) - at : len - at;

        out->report |= is_word(text + at, word, "report-status") ||
                       is_word(text + at, word, "report-status-v2");
        out->side_band |=
            is_word(text + at, word, "side-band-64k") || is_word(text + at, word, "side-band");
        out->options |= is_word(text + at, word, "push-options");
        if (word >= 10 && memcmp(text + at, "push-cert=", 10) == 0)
            return "push_certificate";
        at += word + 1;
    }
    return NULL;
}

static bool is_shallow(const char *text, size_t len)
{
    return len > 8 && memcmp(text, "shallow ", 8) == 0 && id_len(text + 8, len - 8) == len - 8;
}

/* One line, its line end cut off. */
static const char *parse_line(const char *text, size_t len, struct git_push_head *out)
{
    const char *nul = memchr(text, '\0', len);
    size_t command_len = nul != NULL ? (size_t)(nul - text) : len;
    const char *refusal;

    if (is_word(text, command_len, "push-cert"))
        return "push_certificate";
    if (out->count == 0 && nul == NULL && is_shallow(text, len))
        return NULL;
    if (out->count == GIT_COMMANDS_MAX)
        return "push_too_large";
    /* Git takes capabilities from any line; here they are behind the first command and nowhere
     * else, as every client has it. */
    if ((out->count == 0) != (nul != NULL))
        return "push_malformed";
    if (nul != NULL) {
        size_t left = len - command_len - 1;

        if (memchr(nul + 1, '\0', left) != NULL)
            return "push_malformed";
        refusal = parse_capabilities(nul + 1, left, out);
        if (refusal != NULL)
            return refusal;
    }
    if (!parse_command(text, command_len, &out->commands[out->count]))
        return "push_malformed";
    out->count++;
    if (strlen(out->commands[out->count - 1].old_id) != strlen(out->commands[0].old_id))
        return "push_malformed";
    return NULL;
}

const char *git_push_head_parse(const char *data, size_t len, struct git_push_head *out)
{
    size_t at = 0;

    *out = (struct git_push_head){ .commands =
                                       mem_new_zero(GIT_COMMANDS_MAX, sizeof(*out->commands)) };
    for (;;) {
        struct pktline line = pktline_read(data + at, len - at);
        const char *refusal;

        if (line.kind == PKTLINE_FLUSH)
            return at + line.size == len ? NULL : "push_malformed";
        if (line.kind != PKTLINE_DATA)
            return "push_malformed";
        at += line.size;
        if (line.data[line.len - 1] == '\n')
            line.len--;
        refusal = parse_line(line.data, line.len, out);
        if (refusal != NULL)
            return refusal;
    }
}

/* Refusals
 * ------------------------------------------------------------------------------------------- */

static void write_hint(const struct git_push_rules *rules, struct buf *out)
{
    buf_append_str(out, "This push is refused by the sandbox's rules; the same one will be refused "
                        "again. Refs that may be pushed:");
    if (rules->ref_count == 0 && rules->branch[0] == '\0') {
        buf_append_str(out, " none\n");
        return;
    }
    for (size_t i = 0; i < rules->ref_count; i++)
        buf_printf(out, "%s %s", i > 0 ? "," : "", rules->refs[i]);
    if (rules->branch[0] != '\0')
        buf_printf(out, "%s %s", rules->ref_count > 0 ? "," : "", rules->branch);
    buf_append_str(out,
                   rules->overwrite ? "\n" : " (new ones, or what this session pushed before)\n");
}

void git_push_refuse(const struct git_push_head *head, const struct git_push_rules *rules,
                     struct buf *out)
{
    AUTO_BUF struct buf report;
    AUTO_BUF struct buf hint;

    buf_init(&report, REPORT_MAX * 4);
    buf_init(&hint, REPORT_MAX);
    pktline_write(&report, "unpack ok\n", 10);
    for (size_t i = 0; i < head->count; i++) {
        AUTO_FREE
        char *line = mem_printf("ng %s sandbox: %s\n", head->commands[i].ref,
                                git_refusal_message(head->commands[i].refusal));

        pktline_write(&report, line, strlen(line));
    }
    pktline_write_flush(&report);
    if (!head->side_band) {
        buf_append(out, report.data, report.len);
        return;
    }
    write_hint(rules, &hint);
    pktline_write_band(out, 2, buf_text(&hint), hint.len);
    pktline_write_band(out, 1, report.data, report.len);
    pktline_write_flush(out);
}

/* Reports
 * -------------------------------------------------------------------------------------------- */

void git_report_init(struct git_report *report, struct git_push_head *head)
{
    report->head = head;
    report->over = !head->report;
    buf_init(&report->packets, REPORT_MAX);
    buf_init(&report->lines, REPORT_MAX);
}

void git_report_finish(struct git_report *report)
{
    buf_finish(&report->packets);
    buf_finish(&report->lines);
}

/* "ok REF": only refs of this push count. */
static void note_line(struct git_report *report, const char *text, size_t len)
{
    if (len > 0 && text[len - 1] == '\n')
        len--;
    if (len < 4 || memcmp(text, "ok ", 3) != 0)
        return;
    for (size_t i = 0; i < report->head->count; i++)
        if (is_word(text + 3, len - 3, report->head->commands[i].ref))
            report->head->commands[i].accepted = true;
}

static void read_lines(struct git_report *report, struct buf *lines)
{
    size_t at = 0;

    while (!report->over) {
        struct pktline line = pktline_read(lines->data + at, lines->len - at);

        if (line.kind == PKTLINE_MORE)
            break;
        if (line.kind == PKTLINE_DATA)
            note_line(report, line.data, line.len);
        else
            report->over = true;
        at += line.size;
    }
    buf_consume(lines, at);
}

static void read_packets(struct git_report *report)
{
    size_t at = 0;

    while (!report->over) {
        struct pktline line = pktline_read(report->packets.data + at, report->packets.len - at);

        if (line.kind == PKTLINE_MORE)
            break;
        if (line.kind == PKTLINE_DATA && line.data[0] == 1)
            buf_append(&report->lines, line.data + 1, line.len - 1);
        else if (line.kind != PKTLINE_DATA)
            report->over = true;
        at += line.size;
        if (report->lines.failed)
            report->over = true;
        else if (report->lines.len > 0)
            read_lines(report, &report->lines);
    }
    buf_consume(&report->packets, at);
}

void git_report_feed(struct git_report *report, const char *data, size_t len)
{
    if (report->over || len == 0)
        return;
    buf_append(&report->packets, data, len);
    if (report->packets.failed)
        report->over = true;
    else if (report->head->side_band)
        read_packets(report);
    else
        read_lines(report, &report->packets);
}
