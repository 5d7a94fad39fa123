/*
 * Reads and writes of the FUSE descriptor, for two flags of the INIT reply that libfuse 3.14 does
 * not know. NO_EXPORT: no file can be opened by a file handle, by which the root would be reached
 * from the mount of an instance. REQUEST_TIMEOUT: the longest timeout, so that the sysctl
 * fs.fuse.default_request_timeout does not apply. If a request takes longer than the timeout the
 * kernel ends the mount.
 */
#include "fs/requests/device.h"

#include "fs/requests/inflight.h"

#include <fuse_lowlevel.h>
#include <linux/fuse.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#define NO_EXPORT_FLAG2       (1U << 6) /* FUSE_NO_EXPORT_SUPPORT, from Linux 6.9; ignored before */
#define REQUEST_TIMEOUT_FLAG2 (1U << 10) /* FUSE_REQUEST_TIMEOUT, from Linux 6.15 */

enum {
    TIMEOUT_LEAST = 15, /* seconds: the kernel rounds up to that */
    TIMEOUT_MOST = UINT16_MAX
};

/* The reply's timeout follows flags2 and max_stack_depth. */
static const size_t timeout_at = offsetof(struct fuse_init_out, flags2) + 2 * sizeof(uint32_t);

static const struct inflight *agreement;
static bool agreed; /* the reply to FUSE_INIT, the first of all, is written */

static bool is_init_reply(const struct iovec *iov, int count)
{
    struct fuse_out_header header;

    if (agreed || count != 2 || iov[0].iov_len != sizeof header ||
        iov[1].iov_len != sizeof(struct fuse_init_out))
        return false;
    memcpy(&header, iov[0].iov_base, sizeof header);
    return header.unique && header.error == 0;
}

static bool timeout_is_offered(const struct inflight *inflight)
{
    struct fuse_init_in init;

    if (inflight->init_bytes < sizeof(struct fuse_in_header) + sizeof init)
        return false;
    memcpy(&init, inflight->init + sizeof(struct fuse_in_header), sizeof init);
    return init.flags & FUSE_INIT_EXT && init.flags2 & REQUEST_TIMEOUT_FLAG2;
}

/* Reads a sysctl. Returns 0 (no timeout) if the kernel does not have it. */
static unsigned timeout_setting(const char *path)
{
    FILE *file = fopen(path, "re");
    unsigned seconds = 0;

    if (file && fscanf(file, "%u", &seconds) != 1)
        seconds = 0;
    if (file)
        fclose(file);
    return seconds;
}

void device_learn_timeout(struct inflight *inflight, bool replies)
{
    unsigned most = timeout_setting("/proc/sys/fs/fuse/max_request_timeout");
    unsigned seconds = timeout_setting("/proc/sys/fs/fuse/default_request_timeout");

    if (inflight->timeout_known)
        return;
    if (replies && timeout_is_offered(inflight) && (seconds || most))
        seconds = TIMEOUT_MOST;
    if (most && (!seconds || seconds > most))
        seconds = most;
    inflight->timeout_s = seconds && seconds < TIMEOUT_LEAST ? TIMEOUT_LEAST : seconds;
    inflight->timeout_known = true;
}

static ssize_t device_write(int fd, struct iovec *iov, int count, void *userdata)
{
    struct fuse_init_out init;
    struct iovec changed[2];

    (void)userdata;
    if (inflight_answer_take(iov, count)) {
        ssize_t n = 0;

        for (int i = 0; i < count; i++)
            n += (ssize_t)iov[i].iov_len;
        return n;
    }
    if (!is_init_reply(iov, count))
        return writev(fd, iov, count);
    agreed = true;
    memcpy(&init, iov[1].iov_base, sizeof init);
    init.flags |= FUSE_INIT_EXT;
    init.flags2 |= NO_EXPORT_FLAG2;
    if (agreement->timeout_s &&
        timeout_is_offered(agreement)) { /* otherwise there is no timeout to set */
        const uint16_t most = TIMEOUT_MOST;

        init.flags2 |= REQUEST_TIMEOUT_FLAG2;
        memcpy((char *)&init + timeout_at, &most, sizeof most);
    }
    changed[0] = iov[0];
    changed[1] = (struct iovec){.iov_base = &init, .iov_len = sizeof init};
    return writev(fd, changed, 2);
}

static ssize_t device_read(int fd, void *buffer, size_t size, void *userdata)
{
    (void)userdata;
    return read(fd, buffer, size);
}

bool device_use(struct fuse_session *session, struct inflight *inflight)
{
    static const struct fuse_custom_io calls = {.writev = device_write, .read = device_read};

    device_learn_timeout(inflight, false);
    agreement = inflight;
    return fuse_session_custom_io(session, &calls, inflight->fuse_fd) == 0;
}
