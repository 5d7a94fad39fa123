/*
 * Requests in flight: a worker that is killed at any instruction has counted each open file once.
 */
#include "tests/unit/unit.h"

#include "fs/requests/inflight.h"
#include "fs/requests/message.h"

#include <fcntl.h>
#include <linux/fuse.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static struct inflight *inflight, *next; /* the next worker's mapping */
static int inflight_fd, next_fd;
static struct fuse_in_header *head, *next_head;

void message_log(int priority, const char *format, ...)
{
    (void)priority, (void)format;
}

static void inflight_make(struct inflight **made, int *fd, struct fuse_in_header **buffer)
{
    *made = inflight_new(fd);
    ck_assert_ptr_nonnull(*made);
    (*made)->fuse_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    ck_assert(inflight_take_buffer(*made, 0));
    *buffer = inflight_buffer();
}

static void setup(void)
{
    inflight_make(&next, &next_fd, &next_head);
    inflight_make(&inflight, &inflight_fd, &head);
}

static void teardown(void)
{
    close(inflight->fuse_fd);
    close(next->fuse_fd);
    close(inflight_fd);
    close(next_fd);
}

SUITE_SETUP(inflight, setup, teardown);

static struct inflight_request *request_read(uint64_t number, uint32_t opcode)
{
    *head = (struct fuse_in_header){.len = sizeof *head, .opcode = opcode, .unique = number};
    return inflight_begin(NULL);
}

/* Starts a process that stops itself and, when continued, calls inflight_set_open_change() and
 * exits. */
static pid_t counter_start(struct inflight_request *request, int change)
{
    const pid_t pid = fork(), self = pid ? 0 : getpid();

    if (pid == 0) {
        ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        syscall(SYS_kill, self, SIGSTOP);
        inflight_set_open_change(inflight, request, change);
        syscall(SYS_exit_group, 0);
    }
    return pid;
}

static void next_takes_over(int change)
{
    struct inflight_request *request;
    uint32_t at = 0;

    next->n_open = inflight->n_open;
    memcpy(&next->last_open_change, &inflight->last_open_change, sizeof next->last_open_change);
    memcpy(&next->buffers[0].request, &inflight->buffers[0].request,
           sizeof next->buffers[0].request);
    *next_head = *head;
    inflight_recover(next, 0);
    request = inflight_next(next, &at);
    ck_assert_ptr_nonnull(request);
    inflight_set_open_change(next, request, change);
    inflight_done(request);
}

/*
 * Asserts that the next worker counts the open files right if a worker is killed after any
 * instruction of inflight_set_open_change(). change: 1 for an open, -1 for a release. Returns how
 * often that worker itself changed the count.
 */
static unsigned counted_wherever_killed(uint32_t opcode, int change)
{
    const pid_t pid = counter_start(request_read(opcode, opcode), change);
    unsigned changes = 0;
    int status;

    inflight->n_open = 5;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    for (unsigned i = 0; WIFSTOPPED(status); i++) {
        const uint64_t before = inflight->n_open;

        next_takes_over(change);
        ck_assert_msg(next->n_open == (uint64_t)(5 + change), "killed after %u instructions: %ju",
                      i, (uintmax_t)next->n_open);
        ck_assert_int_eq(ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL), 0);
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        changes += inflight->n_open != before;
    }
    return changes;
}

TEST(a_worker_that_is_killed_at_any_instruction_has_counted_a_file_once)
{
    ck_assert_uint_eq(counted_wherever_killed(FUSE_OPEN, 1), 1);
    ck_assert_uint_eq(counted_wherever_killed(FUSE_RELEASE, -1), 1);
}

TEST(a_counted_open_that_is_refused_is_not_counted)
{
    struct inflight_request *request = request_read(2, FUSE_OPEN);

    inflight->n_open = 5;
    inflight_set_open_change(inflight, request, 1);
    request->crashes = 3;
    inflight_recover(inflight, 0);
    ck_assert_uint_eq(inflight->n_open, 5);
    request = request_read(4, FUSE_OPEN);
    inflight_set_open_change(inflight, request, 1);
    inflight_give_up(inflight);
    ck_assert_uint_eq(inflight->n_open, 5);
}
