#include "proxy/model_watch.h"

#include <string.h>

#include "common/mem.h"
#include "harness/test.h"

struct row {
    int status;
    bool stream;
    const char *body;
    bool error;
    bool end_seen;
    const char *words;
    const char *type;
};

static const struct row rows[] = {
    { 429, false,
      "{\"type\":\"error\",\"error\":{\"type\":\"rate_limit_error\",\"message\":\"slow\\n down\"}}",
      true, false, "slow down", "rate_limit_error" },
    { 500, false, "{\"error\":{\"message\":\"boom\",\"code\":5}}", true, false, "boom", "" },
    { 400, false, "{\"error\":\"no such model\"}", true, false, "no such model", "" },
    { 400, false, "{\"message\":\"plain\"}", true, false, "plain", "" },
    { 400, false, "[{\"error\":{\"message\":\"of a list\"}}]", true, false, "of a list", "" },
    { 502, false, "<html><title>Bad &amp; gone</title>\n<body>Sorry</body></html>", true, false,
      "Bad &amp; gone Sorry", "" },
    { 503, false, "", true, false, "", "" },
    { 503, true, "data: {}\n\n", true, false, "data: {}", "" },
    { 500, false, "\xff\xfe", true, false, "", "" },
    { 200, false, "{\"type\":\"error\",\"error\":{\"type\":\"api_error\",\"message\":\"hidden\"}}",
      true, false, "hidden", "api_error" },
    { 200, false, "{\"id\":\"x\",\"error\":null,\"output\":[]}", false, false, "", "" },
    { 200, true, "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n", false, true, "",
      "" },
    { 200, true,
      "event: error\ndata: "
      "{\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":"
      "\"Overloaded\"}}\r\n\r\n",
      true, true, "Overloaded", "overloaded_error" },
    { 200, true, "data: {\"error\":{\"message\":\"cut \\u0007 off\"}}", true, true, "cut off", "" },
    { 200, true,
      "data: {\"type\":\"response.failed\",\"response\":{\"error\":{\"message\":\"failed\"}}}\n\n",
      true, true, "failed", "" },
    { 200, true, "data: {\"delta\":{\"text\":\"an \\\"error\\\": {}\"}}\n\n", false, false, "",
      "" },
    { 200, true, "data: {\"type\":\"error\",\"error\":{\"type\":\"a b\",\"message\":\"x\"}}\n",
      true, true, "x", "" },
};

static void check_row(const struct row *row, size_t step)
{
    struct model_watch watch;
    size_t len = strlen(row->body);

    model_watch_init(&watch, row->status, row->stream);
    for (size_t at = 0; at < len; at += step)
        model_watch_feed(&watch, row->body + at, len - at < step ? len - at : step);
    model_watch_end(&watch);
    CHECK_EQ(watch.error, row->error);
    CHECK_EQ(watch.stream && watch.end.seen, row->end_seen);
    CHECK_STR(watch.words, row->words);
    CHECK_STR(watch.type, row->type);
    model_watch_finish(&watch);
}

TEST(errors_are_found_with_their_words_however_they_are_split)
{
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        for (size_t step = 1; step < 9; step++)
            check_row(&rows[i], step);
        check_row(&rows[i], 4096);
    }
}

TEST(long_answers_take_no_more_memory)
{
    struct model_watch watch;
    char piece[1024];

    memset(piece, 'x', sizeof(piece));
    model_watch_init(&watch, 200, true);
    model_watch_feed(&watch, "data: \"error\"", 13);
    for (int i = 0; i < 1000; i++)
        model_watch_feed(&watch, piece, sizeof(piece));
    CHECK(watch.line.cap <= 8192);
    model_watch_feed(&watch, "\ndata: {\"error\":{\"message\":\"late\"}}\n", 37);
    model_watch_end(&watch);
    CHECK_STR(watch.words, "late");
    model_watch_finish(&watch);
    model_watch_init(&watch, 500, false);
    for (int i = 0; i < 1000; i++)
        model_watch_feed(&watch, piece, sizeof(piece));
    model_watch_end(&watch);
    CHECK_EQ(strlen(watch.words), MODEL_WORDS_MAX - 1);
    model_watch_finish(&watch);
}
