/*
 * PIDs: their meaning for a requester, in other PID namespaces, and after reuse.
 */
#include "tests/host_test.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void *thread_sleeper(void *arg)
{
    atomic_store((_Atomic pid_t *)arg, (pid_t)syscall(SYS_gettid));
    pause();
    return NULL;
}

/* Without descriptors, no process may be considered dead. */
static void test_no_descriptors(pid_t me, pid_t pid, pid_t tid)
{
    struct process *process;
    enum err_id id = named(me, (uint64_t)tid, true, &process);
    descriptors_limit(3);
    bool alive = id == ERR_NONE && host->process_alive(process);
    enum err_id refused = named_id(me, (uint64_t)pid, false);
    descriptors_limit(0);
    check(alive && refused == P10, "without a free descriptor a process is not reported as exited");
    host->process_free(process);
}

void test_numbers(void)
{
    pid_t me = getpid();
    static _Atomic pid_t mine;
    pthread_t thread;
    pthread_create(&thread, NULL, thread_sleeper, &mine);
    pthread_detach(thread);
    while (!mine)
        nap_ms(1);
    check(named_id(me, (uint64_t)me, false) == P16 && named_id(me, 0, false) == P16 &&
              named_id(me, (uint64_t)mine, false) == P16 &&
              named_id(me, (uint64_t)mine, true) == P16,
          "the daemon and its threads are refused");
    check(named_id(me, UINT64_MAX, false) == E27 && named_id(me, 4194305, false) == E44 &&
              named_id(0, 1, false) == P15 && named_id(0, 0, false) == P15,
          "illegal, absent, unseen");

    pid_t pid = threaded_start(true);
    pid_t tid = notes[THREAD];
    check(means(me, (uint64_t)pid, false, pid, 0) && means(me, (uint64_t)tid, false, pid, 0),
          "a thread's number stands for its process");
    check(means(me, (uint64_t)tid, true, pid, tid) && means(tid, 0, true, pid, tid) &&
              means(tid, 0, false, pid, 0) && host->caller_pid(state, tid) == pid,
          "one thread, self");
    test_no_descriptors(me, pid, tid);
    reap(pid);
    check(named_id(me, (uint64_t)pid, false) == E44, "a process that is gone");

    pid = threaded_start(false);
    tid = notes[THREAD];
    check(means(me, (uint64_t)pid, false, pid, 0) && means(me, (uint64_t)tid, true, pid, tid) &&
              named_id(me, (uint64_t)pid, true) == E44,
          "a dead leader with a living thread is alive");
    make_zombie(pid);
    check(named_id(me, (uint64_t)pid, false) == E44 && strstr(err.text, "exited"), "a zombie");
    waitpid(pid, NULL, 0);
}

static int nested_init(void *arg)
{
    (void)arg;
    spawn(0, sleeper, NULL);
    notes[NESTED_READY] = 1;
    return sleeper(NULL);
}

static int pidns_init(void *arg)
{
    (void)arg;
    notes[INNER_PLAIN] = spawn(0, threaded, (void *)&sink);
    note_wait(THREAD_READY);
    notes[INNER_NESTED] = spawn(CLONE_NEWPID, nested_init, NULL);
    note_wait(NESTED_READY);
    notes[INNER_READY] = 1;
    return sleeper(NULL);
}

/* Allows one more descriptor in each round, until naming a process and checking the requester's
 * rights succeed. Returns false if a round is refused with another id than P10. */
static bool found_or_no_descriptor(pid_t tid, pid_t number, bool thread)
{
    struct process *process;
    struct rights *rights;
    enum err_id id = P10;

    host->caller_rights(state, getpid(), 0, 0, &rights);
    host->caller_rights_rest(state, getpid(), rights);
    for (unsigned n = 3; id == P10 && n < 1000; n++) {
        descriptors_limit(n);
        id = named(tid, (uint64_t)number, thread, &process);
        if (id == ERR_NONE) {
            if (host->may_observe(state, rights, NULL, process, &err) < 0)
                id = err.id;
            host->process_free(process);
        }
        descriptors_limit(0);
    }
    rights_free(rights);
    return id == ERR_NONE;
}

/* Translates the PIDs 1 to 11 of the PID namespace of tid to PIDs of the host and back. Returns how
 * many exist, or 0 if one comes back as another PID. */
static int there_and_back(pid_t tid)
{
    int found = 0;
    for (pid_t number = 1; number < 12; number++) {
        pid_t out = 0;
        if (pidns_to_host(state, tid, number, &out) < 0)
            continue;
        if (linux_pid_seen_by(state, tid, out) != number)
            return 0;
        found++;
    }
    return found;
}

/* Simulates kernels before Linux 6.9, whose pidfd_open() has no flags and no pidfds of threads. */
static void pidfds_of_processes_only(void)
{
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pidfd_open, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    const struct sock_fprog program = {sizeof rules / sizeof *rules, rules};

    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static int refused_there_and_back(void *arg)
{
    const pid_t *init = arg;

    pidfds_of_processes_only();
    return syscall(SYS_pidfd_open, getpid(), O_EXCL) < 0 ? there_and_back(*init) : 0;
}

static bool same_without_pidfds_of_threads(pid_t init)
{
    int status = 0;

    waitpid(spawn(0, refused_there_and_back, &init), &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == there_and_back(init);
}

void test_pid_namespaces(void)
{
    notes[THREAD_READY] = 0;
    notes[NESTED_READY] = 0;
    notes[INNER_READY] = 0;
    pid_t init = spawn(CLONE_NEWPID, pidns_init, NULL);
    note_wait(INNER_READY);
    pid_t plain, nested, inner_tid = notes[THREAD];
    check(pidns_to_host(state, init, notes[INNER_PLAIN], &plain) == 0 &&
              plain != notes[INNER_PLAIN] &&
              pidns_to_host(state, init, notes[INNER_NESTED], &nested) == 0,
          "numbers of a PID namespace");
    check(means(init, 1, false, init, 0) && means(init, 0, false, init, 0) &&
              means(init, (uint64_t)notes[INNER_PLAIN], false, plain, 0) &&
              means(init, (uint64_t)inner_tid, false, plain, 0),
          "processes named from a container");
    struct process *process;
    check(named(init, (uint64_t)inner_tid, true, &process) == ERR_NONE &&
              host->process_pid(process) == plain && host->process_tid(process) != plain,
          "a thread named from a container");
    host->process_free(process);
    check(named_id(init, 77, false) == E44 && means(nested, 1, false, nested, 0), "nested");
    check(host->pid_seen_by(state, init, plain) == notes[INNER_PLAIN] &&
              host->pid_seen_by(state, init, nested) == notes[INNER_NESTED] &&
              host->pid_seen_by(state, nested, nested) == 1 &&
              host->pid_seen_by(state, nested, plain) == 0 &&
              host->pid_seen_by(state, init, getpid()) == 0 &&
              host->pid_seen_by(state, 0, plain) == plain,
          "numbers as a container sees them");
    pid_t a, b, own;
    check(pidns_first(state, init, &a) == 0 && a == init && pidns_first(state, nested, &b) == 0 &&
              b == init && pidns_first(state, getpid(), &own) == 0 && own == 0,
          "a container's first process, asked from within it at any depth");
    check(there_and_back(init) > 3 && there_and_back(nested) > 0, "numbers there and back");
    check(same_without_pidfds_of_threads(init), "the same where threads have no pidfd");
    check(found_or_no_descriptor(getpid(), plain, false),
          "named, or refused for lack of descriptors");
    check(found_or_no_descriptor(init, notes[INNER_PLAIN], false) &&
              found_or_no_descriptor(init, inner_tid, true),
          "the same in a container");
    struct pid_view *view;
    host->view_open(state, init, &view);
    descriptors_limit(3);
    const pid_t unread = host->view_pid(view, plain);
    descriptors_limit(0);
    check(unread == 0 && host->view_pid(view, plain) == notes[INNER_PLAIN],
          "a number that could not be read is read again");
    host->view_free(view);
    reap(init);
}

/* A process that gets the PID of an exited one is not taken for it. Runs in a PID namespace with
 * its /proc, like a daemon in a container. */
static int reuse_body(void *arg)
{
    (void)arg;
    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
    mount("proc", "/proc", "proc", 0, NULL);
    if (!check(host->open(NULL, &sink, &state, &err) == 0, "a daemon in a PID namespace"))
        return 1;
    struct process *first, *second = NULL;
    pid_t pid = spawn(0, sleeper, NULL);
    if (!check(named(getpid(), (uint64_t)pid, false, &first) == ERR_NONE, "held before the reuse"))
        return 1;
    reap(pid);
    nap_ms(20); /* before Linux 6.9 the key contains the start time in ticks of 10 ms */
    char text[32];
    snprintf(text, sizeof text, "%d", pid - 1);
    text_write("/proc/sys/kernel/ns_last_pid", text);
    pid_t again = spawn(0, sleeper, NULL);
    named(getpid(), (uint64_t)again, false, &second);
    check(again == pid && second && !host->process_alive(first) && host->process_alive(second) &&
              host->process_key(first) != host->process_key(second),
          "a reused number is another process");
    struct rights *rights;
    host->caller_rights(state, getpid(), 0, 0, &rights);
    host->caller_rights_rest(state, getpid(), rights);
    check(host->may_observe(state, rights, NULL, first, &err) < 0 && err.id == E44,
          "a reused number is not observed");
    return failures();
}

void test_reuse(void)
{
    spawn_test(CLONE_NEWPID | CLONE_NEWNS, reuse_body);
}
