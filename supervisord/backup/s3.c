#include <curl/curl.h>
#include <errno.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backup/backup.h"
#include "common/mem.h"

#define CONNECT_SECONDS 30L
#define SILENCE_SECONDS 60L /* with less than a byte a second */

bool s3_key_valid(const char *key)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                  "._-/";
    size_t len = strlen(key);

    return len > 0 && len <= 200 && strspn(key, letters) == len && key[0] != '/' &&
           key[len - 1] != '/' && strstr(key, "//") == NULL && strstr(key, "..") == NULL;
}

struct transfer {
    CURL *easy;
    struct curl_slist *headers;
    char *url;
    char *signing;
    char *user; /* wiped */
    FILE *file;
};

static void transfer_finish(struct transfer *transfer)
{
    curl_easy_cleanup(transfer->easy);
    curl_slist_free_all(transfer->headers);
    if (transfer->file != NULL)
        fclose(transfer->file);
    if (transfer->user != NULL)
        sodium_memzero(transfer->user, strlen(transfer->user));
    free(transfer->user);
    free(transfer->signing);
    free(transfer->url);
}

static char *pair_of(const struct s3 *s3)
{
    size_t access_len;
    size_t secret_len;
    const char *access = secret_open(s3->access_key, &access_len);
    const char *secret = secret_open(s3->secret_key, &secret_len);
    char *pair = mem_printf("%.*s:%.*s", (int)access_len, access, (int)secret_len, secret);

    secret_shut(s3->access_key);
    secret_shut(s3->secret_key);
    return pair;
}

static int transfer_init(struct transfer *transfer, const struct s3 *s3, const char *key,
                         struct error *err)
{
    *transfer = (struct transfer){ .easy = curl_easy_init() };
    if (transfer->easy == NULL)
        return error_set(err, ERR_LIMIT, 0, "no memory for a transfer");
    transfer->url = mem_printf("%s/%s/%s", s3->endpoint, s3->bucket, key);
    transfer->signing = mem_printf("aws:amz:%s:s3", s3->region);
    transfer->user = pair_of(s3);
    /* Without it older versions of curl sign nothing that stands for the body. What is carried
     * vouches for itself. */
    transfer->headers = curl_slist_append(NULL, "x-amz-content-sha256: UNSIGNED-PAYLOAD");
    curl_easy_setopt(transfer->easy, CURLOPT_HTTPHEADER, transfer->headers);
    curl_easy_setopt(transfer->easy, CURLOPT_URL, transfer->url);
    curl_easy_setopt(transfer->easy, CURLOPT_AWS_SIGV4, transfer->signing);
    curl_easy_setopt(transfer->easy, CURLOPT_USERPWD, transfer->user);
    curl_easy_setopt(transfer->easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(transfer->easy, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(transfer->easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(transfer->easy, CURLOPT_CONNECTTIMEOUT, CONNECT_SECONDS);
    curl_easy_setopt(transfer->easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(transfer->easy, CURLOPT_LOW_SPEED_TIME, SILENCE_SECONDS);
    curl_easy_setopt(transfer->easy, CURLOPT_FAILONERROR, 1L);
    return 0;
}

static int perform(struct transfer *transfer, const char *what, struct error *err)
{
    CURLcode result = curl_easy_perform(transfer->easy);
    long status = 0;

    if (result == CURLE_OK)
        return 0;
    curl_easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &status);
    if (status == 404)
        return error_set(err, ERR_NOT_FOUND, 0, "%s: the storage has no such bucket or object",
                         what);
    if (status == 403 || status == 401)
        return error_set(err, ERR_DENIED, 0,
                         "%s: the storage refuses the keys (status %ld); look at backup.* in the "
                         "configuration and the secrets it names",
                         what, status);
    return error_set(err, ERR_SYSTEM, 0, "%s: %s (status %ld)", what, curl_easy_strerror(result),
                     status);
}

static size_t swallow(char *bytes, size_t size, size_t count, void *data)
{
    (void)bytes;
    (void)data;
    return size * count;
}

int s3_put(const struct s3 *s3, const char *key, const char *path, struct error *err)
{
    struct transfer transfer;
    struct stat st;
    int rc = -1;

    if (transfer_init(&transfer, s3, key, err) < 0)
        return -1;
    transfer.file = fopen(path, "rbe");
    if (transfer.file == NULL || fstat(fileno(transfer.file), &st) < 0) {
        error_set(err, ERR_SYSTEM, errno, "open %s", path);
    } else if ((uint64_t)st.st_size > S3_OBJECT_MAX) {
        error_set(err, ERR_LIMIT, 0,
                  "the backup is larger than 5 GiB, which one request can carry");
    } else {
        curl_easy_setopt(transfer.easy, CURLOPT_UPLOAD, 1L);
        curl_easy_setopt(transfer.easy, CURLOPT_READDATA, transfer.file);
        curl_easy_setopt(transfer.easy, CURLOPT_INFILESIZE_LARGE, (curl_off_t)st.st_size);
        curl_easy_setopt(transfer.easy, CURLOPT_WRITEFUNCTION, swallow);
        rc = perform(&transfer, "upload", err);
    }
    transfer_finish(&transfer);
    return rc;
}

int s3_get(const struct s3 *s3, const char *key, const char *path, struct error *err)
{
    struct transfer transfer;
    int rc = -1;

    if (transfer_init(&transfer, s3, key, err) < 0)
        return -1;
    transfer.file = fopen(path, "wbxe");
    if (transfer.file == NULL) {
        error_set(err, ERR_SYSTEM, errno, "make %s", path);
    } else {
        curl_easy_setopt(transfer.easy, CURLOPT_WRITEDATA, transfer.file);
        curl_easy_setopt(transfer.easy, CURLOPT_MAXFILESIZE_LARGE, (curl_off_t)S3_OBJECT_MAX);
        rc = perform(&transfer, "download", err);
        if (rc == 0 && fflush(transfer.file) != 0)
            rc = error_set(err, ERR_SYSTEM, errno, "write %s", path);
    }
    transfer_finish(&transfer);
    return rc;
}

/* Places -------------------------------------------------------------------------------------- */

static struct s3 s3_of(const struct backup_place *place)
{
    return (struct s3){ place->endpoint, place->region, place->bucket, place->access_key,
                        place->secret_key };
}

int backup_place_send(const struct backup_place *place, struct error *err)
{
    const struct s3 s3 = s3_of(place);

    return place->key != NULL ? s3_put(&s3, place->key, place->path, err) : 0;
}

int backup_place_fetch(const struct backup_place *place, struct error *err)
{
    const struct s3 s3 = s3_of(place);

    return place->key != NULL ? s3_get(&s3, place->key, place->path, err) : 0;
}

void backup_place_clear(const struct backup_place *place)
{
    AUTO_FREE
    char *partial = mem_printf("%s.partial", place->path);

    if (!place->remove_path)
        return;
    unlink(place->path);
    unlink(partial);
}

void backup_place_free(struct backup_place *place)
{
    if (place == NULL)
        return;
    if (place->remove_path)
        unlink(place->path);
    secret_unref(place->access_key);
    secret_unref(place->secret_key);
    secret_unref(place->passphrase);
    free(place->path);
    free(place->key);
    free(place->endpoint);
    free(place->region);
    free(place->bucket);
    free(place);
}
