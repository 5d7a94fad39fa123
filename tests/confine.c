/*
 * The filter of system calls, in a process of its own for each call: what is used works, what is
 * not does not exist, what only an intruder would call ends the process. Prints "ok NAME" or "not
 * ok NAME" for each.
 */
#include "fs/confine.h"
#include "fs/say.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define KILLED (-1) /* else an errno, or 0 */

void say(int priority, const char *format, ...)
{
    va_list args;

    (void)priority;
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
}

static int result(long rc)
{
    return rc < 0 ? errno : 0;
}

static int call_mount(void)
{
    return result(syscall(SYS_mount, "none", "/nowhere", "tmpfs", 0, NULL));
}

static int call_ptrace(void)
{
    return result(syscall(SYS_ptrace, 0, 0, 0, 0));
}

static int call_module(void)
{
    return result(syscall(SYS_init_module, NULL, 0, ""));
}

static int call_bpf(void)
{
    return result(syscall(SYS_bpf, 0, NULL, 0));
}

static int call_unshare(void)
{
    return result(syscall(SYS_unshare, CLONE_NEWNS));
}

static int call_internet(void)
{
    return result(socket(AF_INET, SOCK_STREAM, 0));
}

static int call_unix(void)
{
    return result(socket(AF_UNIX, SOCK_STREAM, 0));
}

static int call_namespace(void)
{
    return result(syscall(SYS_clone, CLONE_NEWNET | SIGCHLD, NULL, NULL, NULL, NULL));
}

static int call_setns(void)
{
    return result(syscall(SYS_setns, -1, CLONE_NEWNS));
}

static int call_setns_user(void)
{
    return result(syscall(SYS_setns, -1, CLONE_NEWUSER));
}

static int call_link(void)
{
    return result(symlink("/nowhere", "/nowhere/at/all"));
}

static int call_unknown(void)
{
    return result(syscall(999));
}

static void *nothing(void *arg)
{
    return arg;
}

static int call_thread(void)
{
    pthread_t thread;
    int rc = pthread_create(&thread, NULL, nothing, NULL);

    return rc ? rc : pthread_join(thread, NULL);
}

static int call_program(void)
{
    char name[] = "true";
    char *arguments[] = {name, NULL}, *environment[] = {NULL};
    pid_t pid;
    int status, rc = posix_spawn(&pid, "/bin/true", NULL, NULL, arguments, environment);

    return rc ? rc : waitpid(pid, &status, 0) == pid && status == 0 ? 0 : ECHILD;
}

static const struct {
    const char *name;
    int (*call)(void);
    int expected;
} calls[] = {
    {"mounting", call_mount, KILLED},
    {"tracing", call_ptrace, KILLED},
    {"loading a module", call_module, KILLED},
    {"bpf", call_bpf, KILLED},
    {"a namespace of its own", call_unshare, KILLED},
    {"a child in a namespace", call_namespace, ENOSYS},
    {"somebody else's mounts", call_setns, ENOSYS},
    {"somebody's user namespace", call_setns_user, EBADF},
    {"the internet", call_internet, ENOSYS},
    {"syslog's kind of socket", call_unix, 0},
    {"a link", call_link, ENOSYS},
    {"a call that nobody knows", call_unknown, ENOSYS},
    {"a thread", call_thread, 0},
    {"a program", call_program, 0},
};

/* The exit status is the errno. */
static bool is_so(int (*call)(void), int expected)
{
    pid_t pid = fork();
    int status;

    if (pid == 0)
        _exit(confine_calls() ? call() : 255);
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return false;
    if (expected == KILLED)
        return WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS;
    return WIFEXITED(status) && WEXITSTATUS(status) == expected;
}

int main(void)
{
    int failures = 0;

    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        bool good = is_so(calls[i].call, calls[i].expected);

        failures += !good;
        printf("%s %s\n", good ? "ok" : "not ok", calls[i].name);
        fflush(stdout);
    }
    return failures > 0;
}
