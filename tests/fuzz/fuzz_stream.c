/*
 * Arbitrary bytes as requests of the kernel: each is answered once, each can be interrupted, and
 * nothing remains at the end of the input. Eight bytes select the request, its object and user, and
 * the number of bytes of its struct or text, which follow.
 */
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/kernel.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

enum about {
    NAMES,   /* a struct followed by names in a directory */
    NODE,    /* a struct */
    FILE_OF, /* a struct that starts with the open file */
    TEXT     /* a struct that starts with the open file, followed by bytes */
};

static const struct kind {
    uint8_t opcode, about, bytes;
} kinds[] = {
    {FUSE_LOOKUP, NAMES, 0},       {FUSE_MKDIR, NAMES, 8},          {FUSE_OPEN, NODE, 8},
    {FUSE_WRITE, TEXT, 40},        {FUSE_READ, FILE_OF, 40},        {FUSE_RMDIR, NAMES, 0},
    {FUSE_RENAME, NAMES, 8},       {FUSE_RENAME2, NAMES, 16},       {FUSE_GETATTR, NODE, 16},
    {FUSE_SETATTR, NODE, 88},      {FUSE_POLL, FILE_OF, 24},        {FUSE_OPENDIR, NODE, 8},
    {FUSE_READDIR, FILE_OF, 40},   {FUSE_READDIRPLUS, FILE_OF, 40}, {FUSE_FLUSH, FILE_OF, 24},
    {FUSE_FSYNC, FILE_OF, 16},     {FUSE_LSEEK, FILE_OF, 24},       {FUSE_IOCTL, FILE_OF, 32},
    {FUSE_FALLOCATE, FILE_OF, 32}, {FUSE_UNLINK, NAMES, 0},         {FUSE_MKNOD, NAMES, 16},
    {FUSE_LINK, NAMES, 8},         {FUSE_SYMLINK, NAMES, 0},        {FUSE_CREATE, NAMES, 16},
    {FUSE_STATFS, NODE, 0},        {FUSE_GETXATTR, NAMES, 8},       {FUSE_LISTXATTR, NODE, 8},
    {FUSE_ACCESS, NODE, 8},        {FUSE_FORGET, NODE, 8},          {FUSE_INTERRUPT, NODE, 8},
};
#define KINDS (sizeof kinds / sizeof kinds[0])

/* Sends a request of this kind: head selects object and user, the n bytes of `more` are the struct
 * and the names or text. Nodes, open files and sizes are replaced by values that a kernel sends. */
static void ask(const struct kind *kind, const uint8_t head[8], const uint8_t *more, size_t n)
{
    char body[5000] = {0};
    const struct file *file = &kernel.file[head[1] % 8];
    uint64_t node = kernel.node[head[1] % 16];
    size_t given = n < kind->bytes ? n : kind->bytes;
    struct fuse_read_in *io = (void *)body;

    memcpy(body, more, given);
    memcpy(body + kind->bytes, more + given, n - given);
    if (kind->about >= FILE_OF) {
        node = file->node;
        io->fh = file->fh;
        io->size = kind->about == TEXT ? (uint32_t)(n - given) : io->size % (1 << 17);
    }
    if (kind->opcode == FUSE_RENAME || kind->opcode == FUSE_RENAME2 || kind->opcode == FUSE_LINK)
        memcpy(body, &kernel.node[head[3] % 16], 8);
    if (node && (kind->about < FILE_OF || file->fh))
        kernel_ask(kind->opcode, node, head[2] % 2, body,
                   kind->bytes + (n - given) + (kind->about == NAMES ? 2 : 0));
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    kernel_begin();
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    while (size >= 8) {
        size_t n = data[4] | (size_t)(data[5] & 0xf) << 8;

        n = n < size - 8 ? n : size - 8;
        if (data[0] % (KINDS + 2) < KINDS)
            ask(&kinds[data[0] % (KINDS + 2)], data, data + 8, n);
        else if (data[0] % (KINDS + 2) == KINDS)
            kernel_close(data[1] % 8);
        else
            kill(getpid(), SIGUSR2);
        data += 8 + n;
        size -= 8 + n;
    }
    kernel_end_all();
    return 0;
}
