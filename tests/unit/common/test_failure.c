#include "common/failure.h"

#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/fd.h"
#include "common/str.h"
#include "harness/test.h"

TEST(every_code_stands_once_and_says_what_to_do)
{
    for (size_t i = 0; failure_at(i) != NULL; i++) {
        const struct failure_kind *kind = failure_at(i);

        CHECK(failure_find(kind->code) == kind);
        CHECK(kind->hint[0] != '\0' && kind->meaning[0] != '\0');
    }
    CHECK(failure_find("no_such_code") == NULL);
    CHECK(failure_find("") == NULL);
}

TEST(what_a_provider_answers_has_a_name_of_the_table)
{
    for (uint64_t status = 0; status < 600; status++) {
        const char *code = failure_of_status(status);

        CHECK(code == NULL || failure_find(code) != NULL);
    }
    CHECK_STR(failure_of_status(429), "model_rate_limited");
    CHECK_STR(failure_of_status(529), "model_overloaded");
    CHECK(failure_of_status(200) == NULL);
    CHECK_STR(failure_of_words("Your credit balance is too low to go on"), "model_billing");
    CHECK_STR(failure_of_words("prompt is too long: 3 tokens > 2"), "context_overflow");
    CHECK(failure_of_words("Overloaded") == NULL);
    CHECK_STR(failure_of_symptom("{\"type\":\"overloaded_error\"}"), "model_overloaded");
    CHECK_STR(failure_of_symptom("Connection reset by server"), "model_unreachable");
}

/* To print it anew: PRINT_FAILURES=1 build-test/asan/tests/bin/unit-common-failure */
TEST(the_documented_table_is_the_real_one)
{
    struct error err = ERROR_INIT;
    struct buf printed;
    char *page = NULL;
    size_t len;

    buf_init(&printed, 1u << 20);
    failure_print(&printed);
    if (getenv("PRINT_FAILURES") != NULL)
        fputs(buf_text(&printed), stderr);
    CHECK_EQ(fd_read_file(PROJECT_SOURCE_DIR "/docs/agents.md", 1u << 20, &page, &len, &err), 0);
    CHECK(page != NULL && strstr(page, buf_text(&printed)) != NULL);
    free(page);
    buf_finish(&printed);
}
