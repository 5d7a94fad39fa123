/*
 * Rights to observe: for each pair of actors of all kinds, the result is compared with the kernel's
 * answer to the opener.
 */
#include "tests/host_test.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/kcmp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define ALL             (~0ULL)
#define DOCKER          0xa80425fbULL
#define BIT(capability) (1ULL << (capability))

enum where {
    HOME,
    ROOTLESS,
    REMAPPED,
    NESTED
};

static struct actor {
    const char *name;
    enum where where;
    uid_t uid;
    gid_t gid;
    uint64_t capabilities;
    bool set_uid, private;
    pid_t pid;
    int ask;
    struct rights *rights;
    struct opener opener;
    struct process *process;
} actors[] = {
    {.name = "user", .uid = 1000, .gid = 1000},
    {.name = "user's other", .uid = 1000, .gid = 1000},
    {.name = "other user", .uid = 1001, .gid = 1001},
    {.name = "other group", .uid = 1000, .gid = 1001},
    {.name = "set-uid program", .uid = 1000, .gid = 1000, .set_uid = true},
    {.name = "not dumpable", .uid = 1000, .gid = 1000, .private = true},
    {.name = "user with a capability", .uid = 1000, .gid = 1000, .capabilities = BIT(CAP_NET_RAW)},
    {.name = "debugger", .uid = 1000, .gid = 1000, .capabilities = BIT(CAP_SYS_PTRACE)},
    {.name = "root", .capabilities = ALL},
    {.name = "container's root", .capabilities = DOCKER},
    {.name = "container's other root", .capabilities = DOCKER},
    {.name = "bare root", .capabilities = 0},
    {.name = "rootless root", .where = ROOTLESS, .capabilities = ALL},
    {.name = "rootless root's other", .where = ROOTLESS, .capabilities = ALL},
    {.name = "rootless bare", .where = ROOTLESS},
    {.name = "rootless bare's other", .where = ROOTLESS},
    {.name = "remapped root", .where = REMAPPED, .capabilities = ALL},
    {.name = "remapped bare", .where = REMAPPED},
    {.name = "remapped user", .where = REMAPPED, .uid = 1000, .gid = 1000},
    {.name = "nested root", .where = NESTED, .capabilities = ALL},
};
#define N_ACTORS (sizeof actors / sizeof *actors)

static const uid_t base_uid[] = {[ROOTLESS] = 1000, [REMAPPED] = 100000, [NESTED] = 1000};
static int userns_fd[] = {[ROOTLESS] = -1, [REMAPPED] = -1};

static void capabilities_become(uint64_t set)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];
    syscall(SYS_capget, &head, data);
    for (int i = 0; i < 2; i++) {
        data[i].permitted &= (uint32_t)(set >> 32 * i);
        data[i].effective = data[i].permitted;
        data[i].inheritable = 0;
    }
    syscall(SYS_capset, &head, data);
}

static int actor_body(void *arg)
{
    const struct actor *actor = arg;
    setgroups(0, NULL);
    if (actor->where != HOME)
        setns(userns_fd[actor->where == NESTED ? ROOTLESS : actor->where], CLONE_NEWUSER);
    prctl(PR_SET_KEEPCAPS, 1);
    syscall(SYS_setresgid, actor->gid, actor->gid, actor->gid);
    uid_t saved = actor->set_uid ? 0 : actor->uid;
    syscall(SYS_setresuid, actor->uid, saved, saved);
    prctl(PR_SET_DUMPABLE, !actor->private && !actor->set_uid);
    if (actor->where == NESTED) {
        unshare(CLONE_NEWUSER);
        text_write("/proc/self/setgroups", "deny");
        text_write("/proc/self/uid_map", "0 0 1");
        text_write("/proc/self/gid_map", "0 0 1");
    }
    if (!(actor->uid == 0 && actor->capabilities == ALL))
        capabilities_become(actor->capabilities);
    prctl(PR_SET_DUMPABLE, !actor->private && !actor->set_uid);
    pid_t pid = 0;
    int answer = 0;
    /* The kernel's answer is the result of kcmp(), which makes the ptrace read check with the
     * opener's credentials. */
    do
        if (write(actor->ask, &answer, sizeof answer) != sizeof answer)
            break;
    while (read(actor->ask, &pid, sizeof pid) == sizeof pid &&
           (answer = syscall(SYS_kcmp, pid, pid, KCMP_VM, 0, 0) == 0 ? 0 : -errno, true));
    return 0;
}

static int holder(void *arg)
{
    uid_t uid = (uid_t)(intptr_t)arg;
    setgroups(0, NULL);
    syscall(SYS_setresgid, uid, uid, uid);
    syscall(SYS_setresuid, uid, uid, uid);
    prctl(PR_SET_DUMPABLE, 1);
    unshare(CLONE_NEWUSER);
    notes[USERNS_READY] = 1;
    return sleeper(NULL);
}

static void userns_make(enum where where, uid_t owner, const char *map)
{
    char path[64];
    notes[USERNS_READY] = 0;
    pid_t pid = spawn(0, holder, (void *)(intptr_t)owner);
    note_wait(USERNS_READY);
    snprintf(path, sizeof path, "/proc/%d/uid_map", pid);
    text_write(path, map);
    snprintf(path, sizeof path, "/proc/%d/gid_map", pid);
    text_write(path, map);
    userns_fd[where] = ns_open(pid, "user");
    reap(pid);
}

void actors_start(void)
{
    userns_make(ROOTLESS, 1000, "0 1000 1");
    userns_make(REMAPPED, 0, "0 100000 65536");
    for (size_t i = 0; i < N_ACTORS; i++) {
        struct actor *actor = &actors[i];
        int pair[2], ready;
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair);
        actor->ask = pair[1];
        actor->pid = spawn(0, actor_body, actor);
        close(pair[1]);
        actor->ask = pair[0];
        if (read(pair[0], &ready, sizeof ready) != sizeof ready)
            check(false, actor->name);
        uid_t base = base_uid[actor->where];
        host->caller_rights(state, actor->pid, base + (actor->set_uid ? 0 : actor->uid),
                            base + actor->gid, &actor->rights);
        host->caller_rights_rest(state, actor->pid, actor->rights);
        host->caller_opener(state, actor->pid, &actor->opener);
        named(getpid(), (uint64_t)actor->pid, false, &actor->process);
    }
}

static int kernels_answer(const struct actor *opener, const struct actor *target)
{
    int answer;
    if (write(opener->ask, &target->pid, sizeof target->pid) < 0 ||
        read(opener->ask, &answer, sizeof answer) != sizeof answer)
        return -EIO;
    return answer;
}

static struct actor *actor_named(const char *name)
{
    for (size_t i = 0; i < N_ACTORS; i++)
        if (strcmp(actors[i].name, name) == 0)
            return &actors[i];
    abort();
}

const struct rights *actor_rights(const char *name)
{
    return actor_named(name)->rights;
}

static bool may(const char *opener, const char *target)
{
    err = (struct err){0};
    const struct actor *by = actor_named(opener), *of = actor_named(target);
    int rc = host->may_observe(state, by->rights, &by->opener, of->process, &err);
    if (rc < 0 && err.id != E40)
        printf("# %s\n", err.text);
    return rc == 0 && host->may_observe_pid(state, by->rights, &by->opener, of->pid) == 0;
}

void test_six_rows(void)
{
    check(may("user", "user's other"), "row 1: a user, its own process");
    check(may("rootless root", "rootless bare"),
          "row 2: rootless root, process without capabilities");
    check(may("rootless root", "rootless root's other"), "row 3: rootless root, another root");
    check(may("rootless bare", "rootless bare's other"), "row 4: rootless without, the same");
    check(!may("rootless bare", "rootless root"),
          "row 5: rootless without, root with capabilities");
    check(may("container's root", "container's other root"), "row 6: a container's capabilities");
    check(!may("user", "remapped bare"), "root's user namespace is not everybody's");
    check(may("user", "rootless root"), "the owner of a user namespace sees into it");
    check(!may("user", "set-uid program") && printf("# %s\n", err.text) &&
              !may("user", "not dumpable") && printf("# %s\n", err.text) && !may("user", "root") &&
              printf("# %s\n", err.text) && !may("user", "user with a capability") &&
              printf("# %s\n", err.text),
          "set-uid, not dumpable, root, capable: refused");
}

void test_all_pairs(void)
{
    unsigned wrong = 0;
    if (syscall(SYS_kcmp, getpid(), getpid(), KCMP_VM, 0, 0) < 0) {
        check(errno == ENOSYS, "every pair is answered as by the kernel # SKIP no kcmp");
        return;
    }
    for (size_t i = 0; i < N_ACTORS; i++)
        for (size_t j = 0; j < N_ACTORS; j++) {
            if (actors[i].set_uid) /* kcmp() checks its real uid, pmcfs its fsuid, which differ */
                continue;
            int kernel = kernels_answer(&actors[i], &actors[j]);
            bool ours = may(actors[i].name, actors[j].name);
            if ((kernel == 0) != ours) {
                printf("# %s -> %s: kernel %d, here %d (%s)\n", actors[i].name, actors[j].name,
                       kernel, ours, err.text);
                wrong++;
            }
        }
    check(wrong == 0, "every pair is answered as by the kernel");
}

static char *credentials(void)
{
    char *text = proc_text("/proc/thread-self/status");
    char *end = strstr(text, "\nSeccomp");
    char *start = strstr(text, "\nUid:");
    char *groups = strndup(start, (size_t)(end - start));
    free(text);
    /* Memory sizes in between change and are skipped. */
    char *memory = strstr(groups, "\nVmPeak");
    char *after = strstr(groups, "\nCapInh");
    if (memory && after)
        memmove(memory, after, strlen(after) + 1);
    return groups;
}

void test_restored(void)
{
    gid_t groups[] = {5, 6, 70000};
    int signal_before, signal_after;
    setgroups(3, groups);
    prctl(PR_SET_PDEATHSIG, SIGUSR1);
    prctl(PR_GET_PDEATHSIG, &signal_before);
    char *before = credentials();
    bool same = strstr(before, "5 6 70000") != NULL;
    for (size_t i = 0; i < N_ACTORS; i++) {
        may(actors[i].name, "user");
        char *after = credentials();
        same = same && strcmp(before, after) == 0;
        free(after);
    }
    prctl(PR_GET_PDEATHSIG, &signal_after);
    check(same, "credentials are restored exactly");
    check(signal_before == signal_after && signal_after == SIGUSR1,
          "and the parent's death signal");
    free(before);
    prctl(PR_SET_PDEATHSIG, 0);
}

static struct question {
    const char *opener, *target;
    bool answer;
} questions[] = {
    {"user", "user's other", true},
    {"other user", "user's other", false},
    {"root", "user's other", true},
    {"rootless root", "rootless bare", true},
    {"rootless bare", "rootless root", false},
};
#define N_QUESTIONS (sizeof questions / sizeof *questions)

static void *asker(void *arg)
{
    const struct question *question = arg;
    const struct actor *opener = actor_named(question->opener);
    const struct actor *target = actor_named(question->target);
    intptr_t wrong = 0;
    for (int i = 0; i < 100; i++) {
        struct err why;
        int rc = host->may_observe(state, opener->rights, &opener->opener, target->process, &why);
        wrong += rc != (question->answer ? 0 : -EPERM);
    }
    return (void *)wrong;
}

void test_threads(void)
{
    pthread_t threads[N_QUESTIONS];
    intptr_t wrong = 0;
    for (size_t i = 0; i < N_QUESTIONS; i++)
        pthread_create(&threads[i], NULL, asker, &questions[i]);
    for (size_t i = 0; i < N_QUESTIONS; i++) {
        void *result;
        pthread_join(threads[i], &result);
        wrong += (intptr_t)result;
    }
    check(wrong == 0, "threads ask for different openers at once");
}

static long hang(void *arg)
{
    (void)arg;
    for (;;)
        syscall(SYS_ppoll, NULL, 0, NULL, NULL, 0);
    return 0;
}

static long answer_seven(void *arg)
{
    (void)arg;
    return -7;
}

static long stop(void *arg)
{
    (void)arg;
    syscall(SYS_kill, syscall(SYS_getpid), SIGSTOP);
    return 0;
}

/* Returns 0 if this process is killed when the daemon exits and has fd 0 and no other descriptor,
 * otherwise -1 or -2. */
static long holds_nothing(void *arg)
{
    int signal = 0;
    (void)arg;
    syscall(SYS_prctl, PR_GET_PDEATHSIG, &signal, 0, 0, 0);
    if (signal != SIGKILL || syscall(SYS_fcntl, 0, F_GETFD) < 0)
        return -1;
    for (int fd = 1; fd < 1024; fd++)
        if (syscall(SYS_fcntl, fd, F_GETFD) >= 0)
            return -2;
    return 0;
}

void test_helper_hangs(void)
{
    check(run_as_opener(actor_rights("user"), true, 0, NULL, hang, NULL) == -ETIME,
          "a helper that hangs is ended");
    check(run_as_opener(actor_rights("user"), true, 0, NULL, stop, NULL) == -ETIME,
          "a helper that is stopped is ended");
    check(run_as_opener(actor_rights("user"), true, 0, NULL, answer_seven, NULL) == -7 &&
              run_as_opener(actor_rights("user"), false, 0, NULL, answer_seven, NULL) == -7,
          "answers come back");
    check(run_as_opener(actor_rights("user"), true, 0, NULL, holds_nothing, NULL) == 0 &&
              run_as_opener(actor_rights("rootless root"), true, 0, NULL, holds_nothing, NULL) == 0,
          "a helper ends with the daemon, and has the descriptors that it needs alone");
}

/* With hidepid a process that the opener may not observe looks absent to it. */
static int hidden_body(void *arg)
{
    (void)arg;
    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
    if (mount("proc", "/proc", "proc", 0, "hidepid=2") < 0)
        return 0;
    check(may("user", "user's other") && !may("user", "root") && err.id == E40 &&
              may("rootless root", "rootless bare") && !may("rootless bare", "rootless root") &&
              err.id == E40,
          "the same answers with hidepid");
    return failures();
}

void test_hidden(void)
{
    spawn_test(CLONE_NEWNS, hidden_body);
}

void test_rights(void)
{
    struct rights *root = actor_named("root")->rights;
    struct rights *mine, *nobody;
    gid_t groups[] = {5, 6, 70000};
    setgroups(3, groups);
    host->caller_rights(state, getpid(), 0, 0, &mine);
    host->caller_rights_rest(state, getpid(), mine);
    host->caller_rights(state, 0, 77, 78, &nobody);
    host->caller_rights_rest(state, 0, nobody);
    check(root->superuser && root->userns_fd == -1 &&
              !actor_named("container's root")->rights->superuser &&
              !actor_named("bare root")->rights->superuser &&
              !actor_named("rootless root")->rights->superuser &&
              actor_named("rootless root")->rights->userns_fd >= 0,
          "superuser is a capability at home");
    check(mine->n_groups == 3 && rights_in_group(mine, 70000) && rights_in_group(mine, 0) &&
              !rights_in_group(mine, 7),
          "groups");
    check(nobody->uid == 77 && nobody->gid == 78 && nobody->n_groups == 0 &&
              nobody->capabilities == 0 && !nobody->superuser,
          "a requester that is not visible");
    const struct rights *remapped = actor_named("remapped root")->rights;
    check(rights_override_mode(remapped, 100000, 165535) &&
              !rights_override_mode(remapped, 99999, 100000) &&
              !rights_override_mode(remapped, 100000, 165536) &&
              !rights_override_mode(remapped, 1000, 0) &&
              !rights_override_mode(actor_named("remapped bare")->rights, 100000, 100000) &&
              !rights_override_mode(actor_named("bare root")->rights, 0, 0) &&
              rights_override_mode(mine, 1, 2),
          "capabilities pass over bits as far as ids are mapped");
    struct opener opener = {0};
    host->caller_opener(state, getpid(), &opener);
    check(opener.key && opener.program_ino, "the opener is noted");
    rights_free(mine);
    rights_free(nobody);
    setgroups(0, NULL);
}

void actors_stop(void)
{
    for (size_t i = 0; i < N_ACTORS; i++) {
        close(actors[i].ask);
        reap(actors[i].pid);
        rights_free(actors[i].rights);
        host->process_free(actors[i].process);
    }
    close(userns_fd[ROOTLESS]);
    close(userns_fd[REMAPPED]);
}

static int become(void *arg)
{
    const struct actor *owner = arg;

    if (setgroups(0, NULL) < 0 || setresgid(owner->gid, owner->gid, owner->gid) < 0 ||
        setresuid(owner->uid, owner->uid, owner->uid) < 0 || prctl(PR_SET_DUMPABLE, 1) < 0)
        return 1;
    return sleeper(NULL);
}

/* A user that may observe a process is never refused while it exits: it exists or is gone. */
void test_exiting(void)
{
    struct actor *user = actor_named("user");
    unsigned gone = 0;

    for (int i = 0; i < 200; i++) {
        pid_t pid = spawn(0, become, user);
        int rc;

        do /* the file belongs to root for a moment */
            rc = host->may_observe_pid(state, user->rights, NULL, pid);
        while (rc == -EPERM);
        kill(pid, SIGKILL);
        while (rc == 0)
            rc = host->may_observe_pid(state, user->rights, NULL, pid);
        gone += rc == -ESRCH;
        reap(pid);
    }
    check(gone == 200, "an exiting process is gone, not refused");
}

void test_keys(void)
{
    pid_t pid = spawn(0, sleeper, NULL);
    uint64_t key = host->pid_key(state, pid);

    check(key != 0 && host->pid_key(state, pid) == key && host->pid_key(state, getpid()) != key,
          "a process has one key");
    make_zombie(pid);
    check(host->pid_key(state, pid) == 0, "none as a zombie");
    reap(pid);
    check(host->pid_key(state, pid) == 0 && host->pid_key(state, 0) == 0, "and none afterwards");
    check(host->callchain_max() >= 1, "the kernel's frames of a call chain");
}
