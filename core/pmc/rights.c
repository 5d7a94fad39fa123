/*
 * The rights of an opener, as a value: freed, printed, read back.
 */
#include "core/base/scan.h"
#include "core/host.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/capability.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void rights_forget(struct rights *rights)
{
    if (rights)
        free(rights->groups);
    free(rights);
}

void rights_free(struct rights *rights)
{
    if (rights && rights->userns_fd >= 0)
        close(rights->userns_fd);
    rights_forget(rights);
}

struct rights *rights_copy(const struct rights *rights)
{
    struct rights *copy = malloc(sizeof *copy);

    if (!copy)
        return NULL;
    *copy = *rights;
    copy->groups = calloc(rights->n_groups + 1, sizeof *copy->groups);
    if (rights->userns_fd >= 0)
        copy->userns_fd = fcntl(rights->userns_fd, F_DUPFD_CLOEXEC, 0);
    if (!copy->groups || (rights->userns_fd >= 0 && copy->userns_fd < 0)) {
        rights_free(copy);
        return NULL;
    }
    if (rights->n_groups) /* else groups may be NULL */
        memcpy(copy->groups, rights->groups, rights->n_groups * sizeof *copy->groups);
    return copy;
}

static bool range_has(const struct id_range ranges[MAPPED_MAX], uint32_t id)
{
    for (int i = 0; i < MAPPED_MAX; i++)
        if (id - ranges[i].first < ranges[i].count && id >= ranges[i].first)
            return true;
    return false;
}

bool rights_pass_bits(const struct rights *rights, uid_t uid, gid_t gid)
{
    const uint64_t dac = (UINT64_C(1) << CAP_DAC_OVERRIDE) | (UINT64_C(1) << CAP_DAC_READ_SEARCH);

    if (!(rights->capabilities & dac))
        return false;
    return rights->userns_fd < 0 || (range_has(rights->uids, uid) && range_has(rights->gids, gid));
}

static void ranges_print(const struct id_range ranges[MAPPED_MAX], struct buf *out)
{
    for (int i = 0; i < MAPPED_MAX; i++)
        buf_printf(out, " %" PRIu32 " %" PRIu32, ranges[i].first, ranges[i].count);
}

static bool ranges_scan(struct scan *scan, struct id_range ranges[MAPPED_MAX])
{
    uint64_t first, count;

    for (int i = 0; i < MAPPED_MAX; i++) {
        if (!scan_u64(scan, UINT32_MAX, &first) || !scan_u64(scan, UINT32_MAX, &count))
            return false;
        ranges[i] = (struct id_range){(uint32_t)first, (uint32_t)count};
    }
    return true;
}

void rights_print(const struct rights *rights, struct buf *out)
{
    buf_u64(out, rights->uid);
    buf_char(out, ' ');
    buf_u64(out, rights->payer);
    buf_char(out, ' ');
    buf_u64(out, rights->gid);
    buf_char(out, ' ');
    buf_u64(out, rights->capabilities);
    buf_str(out, rights->superuser ? " 1 " : " 0 ");
    buf_i64(out, rights->userns_fd);
    buf_printf(out, " %" PRIu64 " %" PRIu64 " %" PRIu64, rights->opener, rights->program_dev,
               rights->program_ino);
    if (rights->userns_fd >= 0) {
        ranges_print(rights->uids, out);
        ranges_print(rights->gids, out);
    }
    for (unsigned i = 0; i < rights->n_groups; i++) {
        buf_char(out, ' ');
        buf_u64(out, rights->groups[i]);
    }
}

static bool groups_scan(struct scan *scan, struct rights *rights)
{
    struct word word;
    uint64_t value;
    size_t size = 0;
    while (scan_word(scan, &word)) {
        if (!word_u64(word, false, 0, UINT32_MAX, &value))
            return false;
        if (rights->n_groups == size) {
            size = size ? 2 * size : 8;
            gid_t *larger = realloc(rights->groups, size * sizeof *larger);
            if (!larger)
                return false;
            rights->groups = larger;
        }
        rights->groups[rights->n_groups++] = (gid_t)value;
    }
    return true;
}

static bool fields_scan(struct scan *scan, struct rights *rights)
{
    uint64_t uid, payer, gid, superuser, fd;
    struct word word;
    if (!scan_u64(scan, UINT32_MAX, &uid) || !scan_u64(scan, UINT32_MAX, &payer) ||
        !scan_u64(scan, UINT32_MAX, &gid) ||
        !scan_u64(scan, UINT64_MAX, &rights->capabilities) || !scan_u64(scan, 1, &superuser) ||
        !scan_word(scan, &word))
        return false;
    rights->uid = (uid_t)uid;
    rights->payer = (uid_t)payer;
    rights->gid = (gid_t)gid;
    rights->superuser = superuser == 1;
    if (!word_is(word, "-1")) {
        if (!word_u64(word, false, 0, INT_MAX, &fd))
            return false;
        rights->userns_fd = (int)fd;
    }
    if (!scan_u64(scan, UINT64_MAX, &rights->opener) ||
        !scan_u64(scan, UINT64_MAX, &rights->program_dev) ||
        !scan_u64(scan, UINT64_MAX, &rights->program_ino))
        return false;
    if (rights->userns_fd >= 0 &&
        !(ranges_scan(scan, rights->uids) && ranges_scan(scan, rights->gids)))
        return false;
    return groups_scan(scan, rights);
}

struct rights *rights_scan(const char *text)
{
    struct scan scan;
    struct rights *rights = calloc(1, sizeof *rights);
    if (!rights)
        return NULL;
    rights->userns_fd = -1;
    scan_init(&scan, text, strlen(text));
    if (fields_scan(&scan, rights))
        return rights;
    rights_forget(rights);
    return NULL;
}

bool rights_in_group(const struct rights *rights, gid_t gid)
{
    bool found = rights->gid == gid;
    for (unsigned i = 0; !found && i < rights->n_groups; i++)
        found = rights->groups[i] == gid;
    return found;
}
