/* web.c: ways that are one POST: a webhook after the Standard Webhooks specification, and a topic
 * of an ntfy server. */
#include "notice/internal.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "common/str.h"

#define TRANSFER_MS 15000L

static void wipe_headers(struct delivery *delivery)
{
    for (struct curl_slist *item = delivery->headers; item != NULL; item = item->next)
        sodium_memzero(item->data, strlen(item->data));
    curl_slist_free_all(delivery->headers);
    delivery->headers = NULL;
}

void transfer_stop(struct delivery *delivery)
{
    if (delivery->job != NULL)
        curl_job_cancel(STEAL(delivery->job));
    if (delivery->easy != NULL)
        curl_easy_cleanup(STEAL(delivery->easy));
    wipe_headers(delivery);
}

static bool on_body(void *data, const char *bytes, size_t len)
{
    (void)data;
    (void)bytes;
    (void)len; /* only the status counts; time bounds the rest */
    return true;
}

static bool on_header(void *data, const char *line, size_t len)
{
    (void)data;
    (void)line;
    (void)len;
    return true;
}

/* Those statuses say that the same request will not be taken later either. */
static enum delivery_result judge(long status)
{
    if (status >= 200 && status < 300)
        return DELIVERY_TOLD;
    return status == 400 || status == 401 || status == 403 || status == 404 || status == 410
               ? DELIVERY_REFUSED
               : DELIVERY_FAILED;
}

static void on_done(void *data, CURLcode result)
{
    struct delivery *delivery = data;
    AUTO_FREE
    char *why = NULL;
    long status = 0;

    delivery->job = NULL;
    curl_easy_getinfo(delivery->easy, CURLINFO_RESPONSE_CODE, &status);
    why = result != CURLE_OK ? mem_strdup(curl_easy_strerror(result))
                             : mem_printf("the answer is HTTP status %ld", status);
    transfer_stop(delivery);
    delivery_done(delivery, result != CURLE_OK ? DELIVERY_FAILED : judge(status), why);
}

int transfer_add_header(struct delivery *delivery, const char *line, struct error *err)
{
    struct curl_slist *longer = curl_slist_append(delivery->headers, line);

    if (longer == NULL)
        return error_set(err, ERR_LIMIT, 0, "no memory for a header");
    delivery->headers = longer;
    return 0;
}

static int add_text_header(struct delivery *delivery, const char *name, const char *text,
                           struct error *err)
{
    AUTO_BUF struct buf line = BUF_INIT(4096);

    if (text[0] == '\0')
        return 0;
    buf_printf(&line, "%s: ", name);
    notice_header(text, &line);
    return transfer_add_header(delivery, buf_text(&line), err);
}

static int send_body(struct delivery *delivery, const char *url, struct error *err)
{
    static const struct curl_job_callbacks model = { .on_header = on_header,
                                                     .on_body = on_body,
                                                     .on_done = on_done };
    struct notices *notices = delivery_notices(delivery);
    struct curl_job_callbacks callbacks = model;
    CURL *easy;

    callbacks.data = delivery;
    if (notices->curl == NULL && curl_loop_start(&notices->curl, notices->loop, err) < 0)
        return -1;
    easy = delivery->easy = curl_easy_init();
    if (easy == NULL)
        return error_set(err, ERR_LIMIT, 0, "no memory for a transfer");
    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "https,http");
    curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(easy, CURLOPT_PROXY, "");
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(easy, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, TRANSFER_MS);
    curl_easy_setopt(easy, CURLOPT_USERAGENT, "sandbox-mcp/" SANDBOX_VERSION);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, delivery->headers);
    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE, (long)delivery->body.len);
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, delivery->body.data);
    if (notices->options.ca_file[0] != '\0')
        curl_easy_setopt(easy, CURLOPT_CAINFO, notices->options.ca_file);
    return curl_job_start(&delivery->job, notices->curl, easy, &callbacks, err);
}

/* A webhook -------------------------------------------------------------------------------------
 */

static int add_webhook_headers(struct delivery *delivery, struct error *err)
{
    AUTO_BUF struct buf id = BUF_INIT(128);
    AUTO_BUF struct buf signature = BUF_INIT(256);
    AUTO_BUF struct buf time = BUF_INIT(32);
    uint64_t seconds = clock_wall_ms(delivery_notices(delivery)->clock) / 1000;

    notice_id(delivery_notice(delivery), &id);
    buf_printf(&time, "%llu", (unsigned long long)seconds);
    if (credential_sign(delivery, buf_text(&id), seconds, &signature, err) < 0 ||
        transfer_add_header(delivery, "Content-Type: application/json", err) < 0 ||
        add_text_header(delivery, "webhook-id", buf_text(&id), err) < 0 ||
        add_text_header(delivery, "webhook-timestamp", buf_text(&time), err) < 0)
        return -1;
    return add_text_header(delivery, "webhook-signature", buf_text(&signature), err);
}

int webhook_start(struct delivery *delivery, struct error *err)
{
    buf_clear(&delivery->body);
    notice_json(delivery_notice(delivery), &delivery->body);
    if (add_webhook_headers(delivery, err) == 0 &&
        send_body(delivery, delivery_notices(delivery)->options.webhook, err) == 0)
        return 0;
    transfer_stop(delivery);
    return -1;
}

/* ntfy ------------------------------------------------------------------------------------------
 */

int ntfy_start(struct delivery *delivery, struct error *err)
{
    const struct notices_options *options = &delivery_notices(delivery)->options;
    const struct notice *notice = delivery_notice(delivery);
    bool waits = str_equal(notice->status, "waiting");
    AUTO_BUF struct buf title = BUF_INIT(1024);

    buf_clear(&delivery->body);
    notice_title(notice, &title);
    notice_text(notice, &delivery->body);
    if (transfer_add_header(delivery, "Content-Type: text/plain; charset=utf-8", err) == 0 &&
        add_text_header(delivery, "Title", buf_text(&title), err) == 0 &&
        add_text_header(delivery, "Click", notice->url, err) == 0 &&
        add_text_header(delivery, "Priority", waits ? "high" : "default", err) == 0 &&
        credential_add_bearer(delivery, options->ntfy_secret, err) == 0 &&
        send_body(delivery, options->ntfy, err) == 0)
        return 0;
    transfer_stop(delivery);
    return -1;
}
