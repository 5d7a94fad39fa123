/*
 * Child processes that read hostile data: executables and symbol names. Such a file can cost
 * gigabytes or hours, or be truncated while it is mapped, which kills the child. The question is
 * then unanswered.
 */
#include "examples/pmc-names/names.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define TICK_US    100000               /* CPU time */
#define MEMORY_MAX (INT64_C(256) << 20) /* bytes that a child may allocate */
#define ENDS_MAX   20 /* children killed by their input; after that no child is started */

bool child_here;
uint64_t child_message[MESSAGE_MAX / sizeof(uint64_t)];

/* State of the child. */
static struct {
    unsigned ticks, ticks_max;
    int64_t begun_bytes;
} cost;

/* Returns the private memory in bytes, without pages of files, which the kernel can reclaim. */
static int64_t own_bytes(void)
{
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    ssize_t n;
    char text[128], *rest = text;

    if (fd < 0)
        return 0;
    n = read(fd, text, sizeof text - 1);
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    strtoull(text, &rest, 10);
    int64_t resident = (int64_t)strtoull(rest, &rest, 10);
    return (resident - (int64_t)strtoull(rest, NULL, 10)) * sysconf(_SC_PAGESIZE);
}

static void tick(int signal)
{
    int before = errno;

    (void)signal;
    if (++cost.ticks >= cost.ticks_max || own_bytes() > cost.begun_bytes + MEMORY_MAX)
        _exit(1);
    errno = before;
}

static void serve(const struct child *child, int socket)
{
    static const struct itimerval every = {{.tv_usec = TICK_US}, {.tv_usec = TICK_US}}, never;
    struct sigaction action = {.sa_handler = tick, .sa_flags = SA_RESTART};
    ssize_t n;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    sigaction(SIGPROF, &action, NULL);
    cost.ticks_max = child->seconds * (1000000 / TICK_US) + 1;
    cost.begun_bytes = own_bytes();
    while ((n = recv(socket, child_message, MESSAGE_MAX, 0)) > 0) {
        cost.ticks = 0;
        setitimer(ITIMER_PROF, &every, NULL);
        n = (ssize_t)child->answer(child->self);
        setitimer(ITIMER_PROF, &never, NULL);
        send(socket, child_message, (size_t)n, MSG_NOSIGNAL);
    }
    _exit(0);
}

static bool child_begin(struct child *child)
{
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return false;
    child->pid = fork();
    if (child->pid == 0)
        serve(child, pair[1]);
    close(pair[1]);
    child->socket = pair[0];
    if (child->pid > 0)
        return true;
    child->pid = 0;
    close(pair[0]);
    return false;
}

void child_end(struct child *child)
{
    if (child->pid == 0)
        return;
    close(child->socket);
    kill(child->pid, SIGKILL);
    waitpid(child->pid, NULL, 0);
    child->pid = 0;
}

size_t child_ask(struct child *child, size_t n)
{
    static unsigned ends;
    ssize_t got;

    if (child_here)
        return child->answer(child->self);
    if (child->spoilt || (child->pid == 0 && ends == ENDS_MAX))
        return 0;
    if (child->pid || child_begin(child)) {
        got = send(child->socket, child_message, n, MSG_NOSIGNAL);
        got = got > 0 ? recv(child->socket, child_message, MESSAGE_MAX, 0) : got;
        if (got > 0)
            return (size_t)got;
        child_end(child);
    }
    child->spoilt = !child->again;
    if (++ends == ENDS_MAX)
        fprintf(stderr, "pmc-names: gave up after too many unreadable program files: more names are missing\n");
    return 0;
}
