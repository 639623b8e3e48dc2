#include "mcp-stdio/content.h"

#include "tests/harness/test.h"

TEST(text_is_cut_between_characters_and_marked)
{
    AUTO_BUF struct buf text = BUF_INIT(1000);

    buf_append_str(&text, "ääää");
    content_cut(&text, 5);
    CHECK_STR(buf_text(&text), "ää\n[cut: 4 of 8 bytes shown]");
}

TEST(text_that_fits_is_left_alone)
{
    AUTO_BUF struct buf text = BUF_INIT(1000);

    content_append_cut(&text, "abc", 3);
    content_cut(&text, 3);
    CHECK_STR(buf_text(&text), "abc");
}

TEST(what_programs_print_becomes_valid_json)
{
    AUTO_BUF struct buf out = BUF_INIT(1000);
    struct json_writer writer;

    json_write_init(&writer, &out);
    json_write_object(&writer);
    content_write_error(&writer, "a\x01\xff\n");
    json_write_object_end(&writer);
    CHECK_STR(buf_text(&out), "{\"content\":[{\"type\":\"text\",\"text\":"
                              "\"a\\u0001\xef\xbf\xbd\\n\"}],\"isError\":true}");
}
