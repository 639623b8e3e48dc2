#include "harness/test.h"

#include <string.h>
#include <sys/stat.h>

#include "common/fd.h"
#include "fake/fake_run.c"
#include "harness/tmp.h"
#include "web/internal.h"

static uint64_t now_ms;

static uint64_t turned(const struct clock *clock)
{
    (void)clock;
    return now_ms;
}

static const struct clock hands = { turned, turned };

static struct login *open_login(void)
{
    struct login *login = NULL;
    struct error err = ERROR_INIT;

    CHECK_EQ(login_open(&login, tmp_dir(), &hands, &err), 0);
    return login;
}

TEST(a_code_leads_to_its_page_once)
{
    struct login *login;
    char first[WEB_TOKEN_SIZE];
    char second[WEB_TOKEN_SIZE];
    char *path;

    now_ms = 1000;
    login = open_login();
    login_make_code(login, "", "/w/x/", first);
    login_make_code(login, "", "/w/x/runs/r", second);
    CHECK(!str_equal(first, second));
    CHECK_EQ(strlen(first), WEB_TOKEN_SIZE - 1);
    path = login_take_code(login, "", second);
    CHECK_STR(path, "/w/x/runs/r");
    free(path);
    CHECK(login_take_code(login, "", second) == NULL);
    CHECK(login_take_code(login, "", "") == NULL);
    CHECK(login_take_code(login, "", NULL) == NULL);
    second[3] = second[3] == 'a' ? 'b' : 'a';
    CHECK(login_take_code(login, "", second) == NULL);
    path = login_take_code(login, "", first);
    CHECK_STR(path, "/w/x/");
    free(path);
    login_close(login);
}

TEST(a_code_gets_too_old_and_the_oldest_of_many_goes)
{
    struct login *login;
    char first[WEB_TOKEN_SIZE];
    char last[WEB_TOKEN_SIZE];
    char *path;

    now_ms = 1000;
    login = open_login();
    login_make_code(login, "", "/old", first);
    now_ms += LOGIN_CODE_MS;
    CHECK(login_take_code(login, "", first) == NULL);
    login_make_code(login, "", "/first", first);
    for (int i = 0; i < 32; i++) {
        now_ms++;
        login_make_code(login, "", "/last", last);
    }
    CHECK(login_take_code(login, "", first) == NULL);
    path = login_take_code(login, "", last);
    CHECK_STR(path, "/last");
    free(path);
    login_close(login);
}

TEST(a_session_outlives_a_restart_and_ends)
{
    struct login *login;
    struct error err = ERROR_INIT;
    char text[WEB_TOKEN_SIZE];
    char other[WEB_TOKEN_SIZE];
    AUTO_FREE
    char *kept = NULL;
    struct stat info;
    size_t len;

    now_ms = 1000;
    login = open_login();
    CHECK_EQ(login_begin(login, "", text, &err), 0);
    CHECK_EQ(login_begin(login, "", other, &err), 0);
    CHECK(login_valid(login, "", text));
    CHECK(!login_valid(login, "", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"));
    CHECK(!login_valid(login, "", ""));
    login_close(login);
    CHECK_EQ(stat(tmp_path("web.sessions"), &info), 0);
    CHECK_EQ(info.st_mode & 0777, 0600u);
    CHECK_EQ(fd_read_file(tmp_path("web.sessions"), 100000, &kept, &len, &err), 0);
    CHECK(strstr(kept, text) == NULL);

    login = open_login();
    CHECK(login_valid(login, "", text));
    login_end(login, "", text);
    CHECK(!login_valid(login, "", text));
    CHECK(login_valid(login, "", other));
    login_close(login);
    login = open_login();
    CHECK(!login_valid(login, "", text));
    CHECK(login_valid(login, "", other));
    now_ms += LOGIN_SESSION_MS;
    CHECK(!login_valid(login, "", other));
    login_close(login);
}

TEST(what_is_right_in_one_scope_is_wrong_in_others)
{
    static const char one[] = "ses_00000000000000000000000000";
    static const char two[] = "ses_00000000000000000000000001";
    struct error err = ERROR_INIT;
    char code[WEB_TOKEN_SIZE];
    char text[WEB_TOKEN_SIZE];
    struct login *login;
    char *path;

    now_ms = 1000;
    login = open_login();
    login_make_code(login, one, "/there", code);
    CHECK(login_take_code(login, "", code) == NULL);
    CHECK(login_take_code(login, two, code) == NULL);
    path = login_take_code(login, one, code);
    CHECK_STR(path, "/there");
    free(path);
    CHECK_EQ(login_begin(login, one, text, &err), 0);
    login_close(login);

    login = open_login();
    CHECK(login_valid(login, one, text));
    CHECK(!login_valid(login, two, text));
    CHECK(!login_valid(login, "", text));
    login_end(login, "", text);
    CHECK(login_valid(login, one, text));
    now_ms += LOGIN_AGENT_MS;
    CHECK(!login_valid(login, one, text));
    login_close(login);
}

TEST(a_damaged_file_signs_out_and_many_sessions_end_the_oldest)
{
    static const char junk[] = "zz\n\nabc 1\n00 99\n";
    struct login *login;
    struct error err = ERROR_INIT;
    char first[WEB_TOKEN_SIZE];
    char text[WEB_TOKEN_SIZE];

    now_ms = 1000;
    tmp_file("web.sessions", junk, strlen(junk), 0600);
    login = open_login();
    CHECK_EQ(login_begin(login, "", first, &err), 0);
    for (int i = 0; i < 64; i++) {
        now_ms++;
        CHECK_EQ(login_begin(login, "", text, &err), 0);
    }
    CHECK(!login_valid(login, "", first));
    CHECK(login_valid(login, "", text));
    login_close(login);
}

TEST(a_wrong_token_makes_the_next_wait)
{
    struct login *login;

    now_ms = 5000;
    login = open_login();
    CHECK(login_may_try(login));
    login_tried(login, false);
    CHECK(!login_may_try(login));
    now_ms += 3000;
    CHECK(login_may_try(login));
    login_tried(login, true);
    CHECK(login_may_try(login));
    login_close(login);
}
