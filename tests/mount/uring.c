/*
 * System calls through io_uring without liburing, run by io_uring workers (IOSQE_ASYNC).
 * Prints one line for each step: "ok", the text read, or the name of the errno. The exit status is
 * 77 if io_uring is forbidden.
 *
 *   uring STEP…
 *   become UID CAPS    become this user without groups, with all or no capabilities (all, none)
 *   gid GID            change the group
 *   regroup GROUP…,    change the supplementary groups, numbers separated by commas
 *   personality        use the present rights for the following requests
 *   workers            create one worker
 *   mkdir PATH  rmdir PATH  mode PATH (statx)  open PATH r|w  write TEXT  close
 *   read               one read(2), without io_uring
 *   inline             let the process execute the following requests, if possible
 *   whole SIZE         read SIZE bytes at increasing offsets until the end
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/io_uring.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct io_uring_params params;
static char *sq, *cq;
static struct io_uring_sqe *sqes;
static int ring, personality, file = -1;
static uint8_t how = IOSQE_ASYNC;

static void die(const char *what)
{
    perror(what);
    exit(2);
}

static void *map(size_t size, off_t offset)
{
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, offset);

    if (at == MAP_FAILED)
        die("mmap");
    return at;
}

static void ring_open(void)
{
    ring = (int)syscall(SYS_io_uring_setup, 8, &params);
    if (ring < 0)
        exit(77);
    sq = map(params.sq_off.array + params.sq_entries * sizeof(unsigned), IORING_OFF_SQ_RING);
    cq = map(params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe),
             IORING_OFF_CQ_RING);
    sqes = map(params.sq_entries * sizeof *sqes, IORING_OFF_SQES);
}

static unsigned *word(char *in, unsigned offset)
{
    return (unsigned *)(void *)(in + offset);
}

/* Submits one request and returns its result. */
static int request(struct io_uring_sqe sqe)
{
    unsigned *tail = word(sq, params.sq_off.tail), *head = word(cq, params.cq_off.head);
    const unsigned at = *tail & *word(sq, params.sq_off.ring_mask);
    const struct io_uring_cqe *done = (void *)(cq + params.cq_off.cqes);
    int result;

    sqe.flags = how;
    sqe.personality = (uint16_t)personality;
    sqes[at] = sqe;
    word(sq, params.sq_off.array)[at] = at;
    __atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
    if (syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) < 0)
        die("io_uring_enter");
    result = done[*head & *word(cq, params.cq_off.ring_mask)].res;
    __atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
    return result;
}

static uint64_t address(const void *p)
{
    return (uint64_t)(uintptr_t)p;
}

static int request_open(const char *path, int flags)
{
    return request((struct io_uring_sqe){.opcode = IORING_OP_OPENAT,
                                         .fd = AT_FDCWD,
                                         .addr = address(path),
                                         .open_flags = (uint32_t)(flags | O_CLOEXEC)});
}

static void outcome(int rc)
{
    puts(rc < 0 ? strerrorname_np(-rc) : "ok");
}

static void step_become(char **args)
{
    const unsigned long uid = strtoul(args[0], NULL, 10);
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2] = {0};

    if (syscall(SYS_setgroups, 0, NULL) < 0 || syscall(SYS_setresgid, uid, uid, uid) < 0 ||
        syscall(SYS_setresuid, uid, uid, uid) < 0 ||
        (strcmp(args[1], "none") == 0 && syscall(SYS_capset, &head, none) < 0))
        die("become");
}

static void step_gid(char **args)
{
    const unsigned long gid = strtoul(args[0], NULL, 10);

    if (syscall(SYS_setresgid, gid, gid, gid) < 0)
        die("gid");
}

static void step_regroup(char **args)
{
    gid_t groups[16];
    size_t n = 0;

    for (char *at = args[0]; n < 16 && *at; at += *at == ',')
        groups[n++] = (gid_t)strtoul(at, &at, 10);
    if (syscall(SYS_setgroups, n, groups) < 0)
        die("regroup");
}

static void step_personality(char **args)
{
    (void)args;
    personality = (int)syscall(SYS_io_uring_register, ring, IORING_REGISTER_PERSONALITY, NULL, 0);
    if (personality < 0)
        die("personality");
}

static void step_workers(char **args)
{
    const int fd = request_open("/dev/null", O_RDONLY);

    (void)args;
    if (fd < 0)
        die("/dev/null");
    close(fd);
}

static void step_mkdir(char **args)
{
    outcome(request((struct io_uring_sqe){
        .opcode = IORING_OP_MKDIRAT, .fd = AT_FDCWD, .addr = address(args[0]), .len = 0755}));
}

static void step_rmdir(char **args)
{
    outcome(request((struct io_uring_sqe){.opcode = IORING_OP_UNLINKAT,
                                          .fd = AT_FDCWD,
                                          .addr = address(args[0]),
                                          .unlink_flags = AT_REMOVEDIR}));
}

static void step_mode(char **args)
{
    struct statx stat = {0};
    const int rc = request((struct io_uring_sqe){.opcode = IORING_OP_STATX,
                                                 .fd = AT_FDCWD,
                                                 .addr = address(args[0]),
                                                 .len = STATX_MODE,
                                                 .addr2 = address(&stat)});

    if (rc < 0)
        outcome(rc);
    else
        printf("%o\n", stat.stx_mode);
}

static void step_open(char **args)
{
    file = request_open(args[0], *args[1] == 'w' ? O_WRONLY : O_RDONLY);
    outcome(file);
}

static void step_write(char **args)
{
    outcome(request((struct io_uring_sqe){.opcode = IORING_OP_WRITE,
                                          .fd = file,
                                          .addr = address(args[0]),
                                          .len = (uint32_t)strlen(args[0])}));
}

static void step_read(char **args)
{
    char text[4096];
    const ssize_t n = read(file, text, sizeof text);

    (void)args;
    if (n < 0)
        outcome(-errno);
    else
        fwrite(text, 1, (size_t)n, stdout);
}

static void step_inline(char **args)
{
    (void)args;
    how = 0;
}

static void step_whole(char **args)
{
    char text[8192];
    const uint32_t size = (uint32_t)strtoul(args[0], NULL, 10);
    uint64_t at = 0;
    int n;

    while ((n = request((struct io_uring_sqe){.opcode = IORING_OP_READ,
                                              .fd = file,
                                              .addr = address(text),
                                              .len = size,
                                              .off = at})) > 0) {
        fwrite(text, 1, (size_t)n, stdout);
        fflush(stdout);
        at += (uint64_t)n;
    }
    if (n < 0)
        outcome(n);
}

static void step_close(char **args)
{
    (void)args;
    outcome(request((struct io_uring_sqe){.opcode = IORING_OP_CLOSE, .fd = file}));
}

static const struct step {
    const char *name;
    int n_args;
    void (*run)(char **args);
} steps[] = {
    {"become", 2, step_become},   {"gid", 1, step_gid},
    {"regroup", 1, step_regroup}, {"personality", 0, step_personality},
    {"workers", 0, step_workers}, {"mkdir", 1, step_mkdir},
    {"rmdir", 1, step_rmdir},     {"mode", 1, step_mode},
    {"open", 2, step_open},       {"write", 1, step_write},
    {"read", 0, step_read},       {"inline", 0, step_inline},
    {"whole", 1, step_whole},     {"close", 0, step_close},
};

int main(int argc, char **argv)
{
    char **end = argv + argc;

    ring_open();
    for (char **at = argv + 1; at < end;) {
        const struct step *step = steps, *last = steps + sizeof steps / sizeof *steps;

        while (step < last && strcmp(step->name, *at) != 0)
            step++;
        if (step == last || end - at <= step->n_args) {
            fprintf(stderr, "uring: %s?\n", *at);
            return 2;
        }
        step->run(at + 1);
        fflush(stdout);
        at += 1 + step->n_args;
    }
    return 0;
}
