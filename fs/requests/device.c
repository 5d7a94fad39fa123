/*
 * Reads and writes of the FUSE descriptor, for the one thing that libfuse 3.14 cannot say: that
 * nothing may be opened by a file handle. With a handle the root is reached from the mount of an
 * instance.
 */
#include "fs/requests/device.h"

#include "fs/requests/hand.h"

#include <fuse_lowlevel.h>
#include <linux/fuse.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#define NO_EXPORT_FLAG2 (1U << 6) /* FUSE_NO_EXPORT_SUPPORT, from Linux 6.9; ignored before */

static bool agreed; /* the answer to INIT, the first of all, is written; no threads before */

static bool is_init_reply(const struct iovec *iov, int count)
{
    struct fuse_out_header header;

    if (agreed || count != 2 || iov[0].iov_len != sizeof header ||
        iov[1].iov_len != sizeof(struct fuse_init_out))
        return false;
    memcpy(&header, iov[0].iov_base, sizeof header);
    return header.unique && header.error == 0;
}

static ssize_t device_write(int fd, struct iovec *iov, int count, void *userdata)
{
    struct fuse_init_out init;
    struct iovec changed[2];

    (void)userdata;
    if (hand_answer_take(iov, count)) {
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
    changed[0] = iov[0];
    changed[1] = (struct iovec){.iov_base = &init, .iov_len = sizeof init};
    return writev(fd, changed, 2);
}

static ssize_t device_read(int fd, void *buffer, size_t size, void *userdata)
{
    (void)userdata;
    return read(fd, buffer, size);
}

bool device_use(struct fuse_session *session, int fd)
{
    static const struct fuse_custom_io calls = {.writev = device_write, .read = device_read};

    return fuse_session_custom_io(session, &calls, fd) == 0;
}
