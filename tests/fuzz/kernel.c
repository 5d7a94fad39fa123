#include "tests/fuzz/kernel.h"

#include "backends/backends.h"
#include "core/base/arena.h"
#include "core/base/journal.h"
#include "fs/program/worker.h"
#include "fs/requests/inflight.h"
#include "fs/tree/node.h"
#include "tests/fuzz/fuzz.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    ANSWER_BYTES = 1 << 18,
    WAITING = 64,
    SOON_MS = 3,      /* a request without an answer by then is waiting */
    AT_ALL_MS = 90000 /* limit for the answer to an interrupted request */
};

struct kernel kernel = {.node = {FUSE_ROOT_ID}};
char kernel_answer[ANSWER_BYTES];

static int end;        /* the kernel's end of the socket pair */
static pid_t users[2]; /* processes that make requests: of root and of uid 1000 */
static uint64_t waiting[WAITING], last_number;
static unsigned n_waiting;
static bool patient; /* wait long for each answer */
static pthread_t program;
static struct inflight *inflight;
static struct journal *journal; /* the worker has a separate mapping */
static struct options options;

/* ---- the program ---- */

static void *program_main(void *arg)
{
    struct worker worker = {.options = &options,
                            .ready_fd = -1,
                            .host = &linux_host,
                            .backend = &sim_backend,
                            .mount.mountpoint = "/nonexistent"};

    (void)arg;
    FUZZ_CHECK(worker_run(&worker, inflight, -1) == 0);
    return NULL;
}

static void program_end(void)
{
    close(end);
    pthread_join(program, NULL);
    options_free(&options);
    journal_free(journal);
}

static void options_make(void)
{
    char *words[] = {(char *)"pmcfs", (char *)"-o",
                     (char *)"single,backend=sim,sim_cpus=2,sim_rows=4", (char *)"/", NULL};

    FUZZ_CHECK(options_read(&options, &linux_host, 4, words) == 0);
}

static pid_t user_make(uid_t uid)
{
    pid_t pid = fork();

    if (pid == 0) {
        close_range(0, ~0U, 0);
        if (setuid(uid) == 0 && prctl(PR_SET_PDEATHSIG, SIGKILL) == 0)
            pause();
        _exit(0);
    }
    return pid;
}

static void inflight_make(int fuse_fd)
{
    const struct {
        struct fuse_in_header head;
        struct fuse_init_in init;
    } first = {{.len = sizeof first, .opcode = FUSE_INIT, .unique = 1},
               {.major = 7, .minor = 38, .max_readahead = 1 << 17, .flags = UINT32_MAX >> 2}};
    int fd;

    inflight = inflight_new(&fd);
    inflight->fuse_fd = fuse_fd;
    inflight->arena_fd = arena_fd();
    journal = journal_new();
    inflight->journal_fd = dup(journal_fd(journal)); /* a separate descriptor */
    inflight->init_bytes = sizeof first;
    memcpy(inflight->init, &first, sizeof first);
}

/* Saves libFuzzer's handlers of crashes; `back`: restores them after the program has set its own,
 * so that libFuzzer stores the input of a crash. */
static void crashes_exchange(bool back)
{
    static const int numbers[] = {SIGSEGV, SIGBUS, SIGABRT, SIGILL, SIGFPE};
    static struct sigaction before[sizeof numbers / sizeof *numbers];

    for (unsigned i = 0; i < sizeof numbers / sizeof *numbers; i++)
        sigaction(numbers[i], back ? &before[i] : NULL, back ? NULL : &before[i]);
}

void kernel_begin(void)
{
    const int bytes = 1 << 20;
    sigset_t reload;
    int ends[2];

    users[0] = user_make(0);
    users[1] = user_make(1000);
    FUZZ_CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
    setsockopt(ends[0], SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof bytes);
    setsockopt(ends[1], SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof bytes);
    end = ends[0];
    options_make();
    inflight_make(ends[1]);
    sigemptyset(&reload);
    sigaddset(&reload, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &reload, NULL);
    crashes_exchange(false);
    FUZZ_CHECK(pthread_create(&program, NULL, program_main, NULL) == 0);
    atexit(program_end);
    FUZZ_CHECK(recv(end, kernel_answer, sizeof kernel_answer, 0) > 0);
    crashes_exchange(true);
}

/* ---- requests and answers ---- */

static bool number_take(uint64_t number)
{
    for (unsigned i = 0; i < n_waiting; i++)
        if (waiting[i] == number) {
            waiting[i] = waiting[--n_waiting];
            return true;
        }
    return false;
}

static bool is_waiting(uint64_t number)
{
    for (unsigned i = 0; i < n_waiting; i++)
        if (waiting[i] == number)
            return true;
    return false;
}

static void interrupt(uint64_t number)
{
    kernel_ask(FUSE_INTERRUPT, 0, 0, &number, sizeof number);
}

/* Waits for an answer; returns false after patience_ms. libFuzzer's timer interrupts poll(2). */
static bool answer_comes(int patience_ms)
{
    struct pollfd look = {.fd = end, .events = POLLIN};
    int n;

    do
        n = poll(&look, 1, patience_ms);
    while (n < 0 && errno == EINTR);
    return n == 1;
}

/* Reads answers until the one to this request (0: until one to any request). Returns false if none
 * comes for patience_ms. Every request has one answer; notifications are skipped. */
static bool answer_take(uint64_t number, int patience_ms)
{
    const struct fuse_out_header *head = (const void *)kernel_answer;

    while (answer_comes(patience_ms)) {
        ssize_t n = recv(end, kernel_answer, sizeof kernel_answer, 0);

        FUZZ_CHECK(n >= (ssize_t)sizeof *head && head->len == n);
        if (head->unique & 1 && head->error == -EAGAIN && is_waiting(head->unique - 1))
            interrupt(head->unique - 1); /* the program may not have read the request yet */
        if (head->unique == 0 || (head->unique & 1 && head->error == -EAGAIN))
            continue;
        FUZZ_CHECK(number_take(head->unique) && head->error <= 0 && head->error > -512);
        FUZZ_CHECK(!head->error || n == sizeof *head);
        if (!number || head->unique == number)
            return true;
    }
    return false;
}

static void learn(uint32_t opcode, uint64_t node)
{
    const void *body = kernel_answer + sizeof(struct fuse_out_header);
    const struct fuse_entry_out *entry = body;
    const struct fuse_open_out *open = body;

    if (opcode == FUSE_LOOKUP || opcode == FUSE_MKDIR) {
        kernel.node[kernel.n_nodes++ % 15 + 1] = entry->nodeid;
    } else if (opcode == FUSE_OPEN || opcode == FUSE_OPENDIR) {
        const struct file opened = {node, open->fh};

        kernel_close(kernel.n_files % 8);
        kernel.file[kernel.n_files++ % 8] = opened;
    }
}

/* Interrupts all waiting requests, and reads their answers. */
static void waiting_end(void)
{
    for (unsigned i = 0; i < n_waiting; i++)
        interrupt(waiting[i]);
    while (n_waiting)
        FUZZ_CHECK(answer_take(0, AT_ALL_MS));
}

int kernel_ask(uint32_t opcode, uint64_t node, unsigned user, const void *body, size_t bytes)
{
    static char request[1 << 17];
    uint64_t number = 0;
    if (opcode == FUSE_INTERRUPT)
        memcpy(&number, body, sizeof number);
    const struct fuse_in_header head = {.len = (uint32_t)(sizeof head + bytes),
                                        .opcode = opcode,
                                        .unique = opcode == FUSE_INTERRUPT ? number | 1
                                                                           : (last_number += 2),
                                        .nodeid = node,
                                        .uid = user ? 1000 : 0,
                                        .gid = user ? 1000 : 0,
                                        .pid = (uint32_t)users[user]};
    const struct fuse_out_header *answer = (const void *)kernel_answer;

    memcpy(request, &head, sizeof head);
    memcpy(request + sizeof head, body, bytes);
    FUZZ_CHECK(send(end, request, head.len, 0) == head.len);
    if (opcode == FUSE_FORGET || opcode == FUSE_BATCH_FORGET || opcode == FUSE_INTERRUPT)
        return 0;
    waiting[n_waiting++] = head.unique;
    if (!answer_take(head.unique, patient ? AT_ALL_MS : SOON_MS)) {
        if (n_waiting == WAITING)
            waiting_end();
        return -EINPROGRESS;
    }
    if (!answer->error)
        learn(opcode, node);
    return answer->error;
}

void kernel_close(unsigned i)
{
    const struct fuse_release_in release = {.fh = kernel.file[i].fh};

    if (!release.fh)
        return;
    kernel.file[i].fh = 0;
    waiting_end(); /* the kernel releases a file when no request uses it */
    kernel_ask(FUSE_RELEASE, kernel.file[i].node, 0, &release, sizeof release);
}

static void entry_remove(uint64_t node, const struct fuse_dirent *entry);

/* Removes all removable entries of a directory, recursively. */
static void empty(uint64_t node)
{
    const struct fuse_open_in open = {0};
    const struct fuse_out_header *head = (const void *)kernel_answer;
    struct fuse_read_in from = {.size = 1 << 16};
    const struct fuse_dirent *entry;
    char *list;
    size_t n;

    FUZZ_CHECK(kernel_ask(FUSE_OPENDIR, node, 0, &open, sizeof open) == 0);
    from.fh = kernel.file[(kernel.n_files - 1) % 8].fh;
    FUZZ_CHECK(kernel_ask(FUSE_READDIR, node, 0, &from, sizeof from) == 0);
    n = head->len - sizeof *head;
    list = malloc(n);
    memcpy(list, head + 1, n);
    for (size_t at = 0; at < n; at += FUSE_DIRENT_SIZE(entry)) {
        entry = (const void *)(list + at);
        if (entry->name[0] != '.')
            entry_remove(node, entry);
    }
    free(list);
}

static void entry_remove(uint64_t node, const struct fuse_dirent *entry)
{
    const bool is_instance = node == node_id(NODE_INSTANCE, 0, NUMBER_INSTANCES);
    char name[256] = "";

    if (is_instance || entry->ino == node_id(NODE_INSTANCE, 0, NUMBER_INSTANCES))
        empty(entry->ino);
    memcpy(name, entry->name, entry->namelen);
    if (is_instance || entry->ino >> 60 == NODE_PMC)
        FUZZ_CHECK(kernel_ask(FUSE_RMDIR, node, 0, name, entry->namelen + 1) == 0);
}

void kernel_end_all(void)
{
    patient = true;
    waiting_end();
    empty(kernel.node[0]);
    for (unsigned i = 0; i < 8; i++)
        kernel_close(i);
    kernel.n_nodes = kernel.n_files = 0;
    patient = false;
}
