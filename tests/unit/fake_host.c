/*
 * A fake host: the tables of struct host_state determine all results.
 */
#include "tests/unit/fake_host.h"

#include "core/backend.h"
#include "core/log/record.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct process {
    struct host_state *state;
    pid_t pid, tid;
    uint64_t key;
    uint64_t tag;
    bool watched;
    struct process *next_watched;
};

static struct process *watched;

/* Like ck_assert_msg(), also in builds with NDEBUG and in the fuzz drivers, which do not use Check.
 */
static void must(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "fake host: %s\n", what);
    abort();
}

/* ---- the tables ---- */

void fake_init(struct host_state *state, const struct sink *sink)
{
    *state = (struct host_state){.now_ns = UINT64_C(100000000000), .sink = sink};
    watched = NULL;
    fake_add(state, FAKE_SELF, 0);
}

void fake_clear(struct host_state *state)
{
    must(state->n_handles == 0, "a process is still held");
    must(state->n_watches == 0, "a process is still watched");
    must(state->n_views == 0, "a view is still held");
    cpus_free(&state->possible);
    cpus_free(&state->online);
}

struct fake_process *fake_find(struct host_state *state, pid_t pid)
{
    for (unsigned i = 0; i < state->n_processes; i++)
        if (state->process[i].pid == pid)
            return &state->process[i];
    return NULL;
}

struct fake_process *fake_add(struct host_state *state, pid_t pid, uid_t uid)
{
    struct fake_process *process = &state->process[state->n_processes];

    must(state->n_processes < FAKE_PROCESSES, "FAKE_PROCESSES is too small");
    state->n_processes++;
    *process =
        (struct fake_process){.pid = pid, .uid = uid, .alive = true, .key = ++state->next_key};
    return process;
}

void fake_pass_ms(struct host_state *state, uint64_t ms)
{
    __atomic_add_fetch(&state->now_ns, ms * 1000000, __ATOMIC_RELAXED);
}

void fake_kill(struct host_state *state, pid_t pid, bool notify)
{
    struct fake_process *process = fake_find(state, pid);

    __atomic_store_n(&process->alive, false, __ATOMIC_RELAXED);
    for (struct process *p = watched, *next; notify && p; p = next) {
        next = p->next_watched;
        if (p->pid == pid && p->key == process->key)
            state->sink->process_exited(state->sink->ctx, p->tag);
    }
}

void fake_reuse(struct host_state *state, pid_t pid, uid_t uid)
{
    struct fake_process *process = fake_find(state, pid);

    process->uid = uid;
    process->key = ++state->next_key;
    process->alive = true;
}

void fake_cpu(struct host_state *state, unsigned cpu, bool online)
{
    if (online)
        cpus_add(&state->online, cpu);
    else
        cpus_remove(&state->online, cpu);
    state->sink->cpu_changed(state->sink->ctx, cpu, online);
}

struct rights *fake_rights(uid_t uid, bool superuser)
{
    struct rights *rights = calloc(1, sizeof *rights);

    *rights = (struct rights){
        .uid = uid, .payer = uid, .gid = uid, .superuser = superuser, .userns_fd = -1};
    return rights;
}

/* ---- clocks, CPUs ---- */

static uint64_t now_ns(struct host_state *state)
{
    return __atomic_load_n(&state->now_ns, __ATOMIC_RELAXED);
}

static uint64_t tsc_hz(struct host_state *state)
{
    (void)state;
    return 1000000000;
}

static void cpu_name(struct host_state *state, struct buf *out)
{
    (void)state;
    buf_str(out, "fake");
}

static void cpus_possible(struct host_state *state, struct cpus *out)
{
    cpus_copy(out, &state->possible);
}

static void cpus_online(struct host_state *state, struct cpus *out)
{
    cpus_copy(out, &state->online);
}

/* ---- processes ---- */

static struct fake_process *find_task(struct host_state *state, pid_t number, pid_t *tid)
{
    for (unsigned i = 0; i < state->n_processes; i++) {
        struct fake_process *process = &state->process[i];

        *tid = number;
        if (process->pid == number)
            return process;
        for (unsigned t = 0; t < 4 && process->tid[t]; t++)
            if (process->tid[t] == number)
                return process;
    }
    return NULL;
}

static struct process *hold(struct host_state *state, pid_t pid, pid_t tid, uint64_t key)
{
    struct process *process = calloc(1, sizeof *process);

    if (!process)
        return NULL;
    *process = (struct process){.state = state, .pid = pid, .tid = tid, .key = key};
    __atomic_add_fetch(&state->n_handles, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&state->n_opened, 1, __ATOMIC_RELAXED);
    return process;
}

static int process_open(struct host_state *state, pid_t tid, uint64_t number, bool thread,
                        struct process **out, struct err *err)
{
    const struct fake_process *asker = fake_find(state, tid);
    struct fake_process *found;
    pid_t task;

    if (tid == 0 || !asker)
        return err_set(err, P15, "the writer cannot be seen");
    if (number && asker->outside)
        number = number > FAKE_OUTSIDE ? number - FAKE_OUTSIDE : UINT64_MAX / 2;
    if (number == 0)
        number = (uint64_t)tid;
    found = number < 1u << 23 ? find_task(state, (pid_t)number, &task) : NULL;
    if (!found || !found->alive)
        return err_set(err, E44, "process %" PRIu64 " has exited", number);
    if (found->pid == FAKE_SELF)
        return err_set(err, P16, "pmcfs does not observe itself");
    *out = hold(state, found->pid, thread ? task : 0, found->key);
    return *out ? 0 : err_set(err, E32, "no memory");
}

static int process_first(struct host_state *state, pid_t tid, struct process **out, struct err *err)
{
    const struct fake_process *asker = fake_find(state, tid), *first;

    *out = NULL;
    if (tid == 0 || !asker)
        return err_set(err, P15, "the writer cannot be seen");
    if (!asker->outside)
        return 0;
    first = fake_find(state, FAKE_FIRST);
    if (!first || !first->alive)
        return err_set(err, E44, "process 1 has exited");
    *out = hold(state, first->pid, 0, first->key);
    return *out ? 0 : err_set(err, E32, "no memory");
}

static void process_free(struct process *process)
{
    must(!process->watched, "a process is freed while it is watched");
    __atomic_sub_fetch(&process->state->n_handles, 1, __ATOMIC_RELAXED);
    memset(process, 0x5a, sizeof *process); /* so that a later use is noticed */
    free(process);
}

static pid_t process_pid(const struct process *process)
{
    return process->pid;
}

static pid_t process_tid(const struct process *process)
{
    return process->tid;
}

static uint64_t process_key(const struct process *process)
{
    return process->key;
}

static bool process_alive(const struct process *process)
{
    const struct fake_process *found = fake_find(process->state, process->pid);

    return found && __atomic_load_n(&found->alive, __ATOMIC_RELAXED) && found->key == process->key;
}

static void process_name(const struct process *process, char name[PROCESS_NAME])
{
    const struct fake_process *found = fake_find(process->state, process->pid);

    if (process_alive(process))
        snprintf(name, PROCESS_NAME, "%s", found->name ? found->name : "fake");
}

static int may_observe_pid(struct host_state *state, const struct rights *rights,
                           const struct opener *opener, pid_t pid)
{
    const struct fake_process *found = fake_find(state, pid);

    (void)opener;
    if (!rights)
        return pid == FAKE_SELF ? -EPERM : 0;
    state->observed++;
    if (!found || !found->alive)
        return -ESRCH;
    return rights->superuser || rights->uid == found->uid ? 0 : -EPERM;
}

static int may_observe(struct host_state *state, const struct rights *rights,
                       const struct opener *opener, const struct process *process, struct err *err)
{
    int rc = may_observe_pid(state, rights, opener, process->pid);

    if (rc == -ESRCH)
        return err_set(err, E44, "process %d has exited", process->pid);
    return rc ? err_set(err, E40, "you may not observe process %d", process->pid) : 0;
}

static bool process_headless(const struct process *process)
{
    return process->state->headless;
}

static int process_watch(struct process *process, uint64_t tag)
{
    must(!process->watched, "a process is watched twice");
    if (process->state->watch_fails)
        return -ENOSPC;
    process->watched = true;
    process->tag = tag;
    process->next_watched = watched;
    watched = process;
    process->state->n_watches++;
    return 0;
}

static void process_unwatch(struct process *process)
{
    struct process **at = &watched;

    if (!process->watched)
        return;
    while (*at != process)
        at = &(*at)->next_watched;
    *at = process->next_watched;
    process->watched = false;
    process->state->n_watches--;
}

static pid_t pid_seen_by(struct host_state *state, pid_t tid, pid_t pid)
{
    const struct fake_process *asker = fake_find(state, tid);

    if (pid == state->unseen)
        return 0;
    return asker && asker->outside ? pid + FAKE_OUTSIDE : pid;
}

static pid_t caller_pid(struct host_state *state, pid_t tid)
{
    return fake_find(state, tid) ? tid : 0;
}

static uint64_t pid_key(struct host_state *state, pid_t pid)
{
    const struct fake_process *found = fake_find(state, pid);

    return found && __atomic_load_n(&found->alive, __ATOMIC_RELAXED) ? found->key : 0;
}

static void process_print(const struct process *process, struct buf *out)
{
    buf_printf(out, "fake %d %d %" PRIu64, process->pid, process->tid, process->key);
}

static int process_adopt(struct host_state *state, const char *printed, struct process **out)
{
    int pid, tid;
    uint64_t key;

    if (sscanf(printed, "fake %d %d %" SCNu64, &pid, &tid, &key) != 3)
        return -EINVAL;
    *out = hold(state, pid, tid, key);
    return *out ? 0 : -ENOMEM;
}

/* ---- inventory and PID namespaces ---- */

static void records_deliver(struct buf *records, const struct intake *intake)
{
    for (size_t at = 0; at < records->len;) {
        const struct record *record = (const struct record *)(records->data + at);

        intake->put(intake->arg, record);
        at += record->size;
    }
    buf_free(records);
}

static void inventory_of(const struct fake_process *process, uint64_t time_ns,
                         const struct intake *intake)
{
    const char *name = process->name ? process->name : "fake";
    const uint32_t pid = (uint32_t)process->pid;
    struct buf records = {0};

    record_add_comm(&records, time_ns, pid, pid, name, RECORD_FOUND);
    for (unsigned i = 0; i < 4 && process->tid[i]; i++)
        record_add_comm(&records, time_ns, pid, (uint32_t)process->tid[i], name, RECORD_FOUND);
    record_add_map(&records, time_ns,
                   &(struct map_facts){.pid = pid,
                                       .tid = pid,
                                       .start = FAKE_MAP_START,
                                       .length = FAKE_MAP_LENGTH,
                                       .inode = 1,
                                       .protection = 5,
                                       .flags = 2,
                                       .path = FAKE_MAP_PATH},
                   RECORD_FOUND | RECORD_USERMODE);
    records_deliver(&records, intake);
}

static void inventory(struct host_state *state, pid_t pid, bool data, uint64_t time_ns,
                      const struct intake *intake)
{
    (void)data;
    for (unsigned i = 0; i < state->n_processes; i++)
        if ((pid == 0 || state->process[i].pid == pid) && state->process[i].alive)
            inventory_of(&state->process[i], time_ns, intake);
}

static void kernel_maps(struct host_state *state, uint64_t time_ns, const struct intake *intake)
{
    struct buf records = {0};

    (void)state;
    record_add_map(&records, time_ns,
                   &(struct map_facts){.pid = UINT32_MAX,
                                       .start = FAKE_KERNEL_START,
                                       .length = FAKE_KERNEL_LENGTH,
                                       .offset = FAKE_KERNEL_START,
                                       .path = "[kernel.kallsyms]_text"},
                   RECORD_FOUND | RECORD_KERNEL);
    records_deliver(&records, intake);
}

/* The PID namespace of callers with `outside` set. */
struct pid_view {
    struct host_state *state;
};

static int view_hold(struct host_state *state, struct pid_view **view)
{
    *view = calloc(1, sizeof(**view));
    if (!*view)
        return -ENOMEM;
    (*view)->state = state;
    __atomic_add_fetch(&state->n_views, 1, __ATOMIC_RELAXED);
    return 0;
}

static int view_open(struct host_state *state, pid_t tid, struct pid_view **view)
{
    const struct fake_process *asker = fake_find(state, tid);

    *view = NULL;
    return asker && asker->outside ? view_hold(state, view) : 0;
}

static void view_free(struct pid_view *view)
{
    if (!view)
        return;
    __atomic_sub_fetch(&view->state->n_views, 1, __ATOMIC_RELAXED);
    free(view);
}

static pid_t view_pid(struct pid_view *view, pid_t pid)
{
    return pid == view->state->unseen ? 0 : pid + FAKE_OUTSIDE;
}

static void view_forget_pid(struct pid_view *view, pid_t pid)
{
    (void)pid;
    __atomic_add_fetch(&view->state->forgotten, 1, __ATOMIC_RELAXED);
}

static void view_print(const struct pid_view *view, struct buf *out)
{
    (void)view;
    buf_str(out, "outside");
}

static int view_adopt(struct host_state *state, const char *printed, struct pid_view **view)
{
    return strcmp(printed, "outside") == 0 ? view_hold(state, view) : -EINVAL;
}

/* ---- cgroups: a descriptor is an empty file whose size is the index in the table ---- */

static struct host_state *cgroup_state;

static int cgroup_open(struct host_state *state, pid_t tid, const char *path, int *fd, char **name,
                       struct err *err)
{
    (void)tid;
    cgroup_state = state;
    for (unsigned i = 0; i < state->n_cgroups; i++) {
        if (strcmp(state->cgroup[i].path, path) != 0 || !state->cgroup[i].alive)
            continue;
        *fd = memfd_create("cgroup", MFD_CLOEXEC);
        must(*fd >= 0 && ftruncate(*fd, (off_t)i) == 0, "no memfd");
        *name = strdup(path);
        if (state->on_cgroup)
            state->on_cgroup();
        if (*name)
            return 0;
        close(*fd);
        *fd = -1;
        return err_set(err, E32, "no memory");
    }
    return err_set(err, P33, "there is no cgroup %s", path);
}

static uint64_t cgroup_key(int fd)
{
    off_t size = lseek(fd, 0, SEEK_END);

    return size >= 0 ? (uint64_t)size : UINT64_MAX;
}

static bool cgroup_alive(int fd)
{
    uint64_t i = cgroup_key(fd);

    return cgroup_state && i < cgroup_state->n_cgroups && cgroup_state->cgroup[i].alive;
}

static int cgroup_root(struct host_state *state, pid_t tid, const char *path, int *root,
                       char **name, struct err *err)
{
    (void)state;
    (void)tid;
    *root = memfd_create("root", MFD_CLOEXEC);
    must(*root >= 0, "no memfd");
    *name = strdup(path);
    if (*name)
        return 0;
    close(*root);
    return err_set(err, E32, "no memory");
}

static int cgroup_reopen_root(int fd, const char *name)
{
    (void)fd;
    (void)name;
    return memfd_create("root", MFD_CLOEXEC);
}

/* Does not report changes: a test calls the sink directly. */
static int cgroup_watch(struct host_state *state, int root, const char *name, uint64_t tag,
                        struct cgroup_watch **watch, int *fd, struct err *err)
{
    struct err absent = {.id = ERR_NONE};
    char *same;

    (void)root;
    (void)tag;
    *watch = malloc(1);
    *fd = -1;
    if (!*watch)
        return err_set(err, E32, "no memory");
    if (cgroup_open(state, 0, name, fd, &same, &absent) == 0)
        free(same);
    return 0;
}

static void cgroup_unwatch(struct cgroup_watch *watch)
{
    free(watch);
}

const struct host fake_host = {
    .name = "fake",
    .now_ns = now_ns,
    .realtime_ns = now_ns,
    .tsc = now_ns,
    .tsc_hz = tsc_hz,
    .cpu_name = cpu_name,
    .cpus_possible = cpus_possible,
    .cpus_online = cpus_online,
    .process_open = process_open,
    .process_first = process_first,
    .process_free = process_free,
    .process_pid = process_pid,
    .process_tid = process_tid,
    .process_key = process_key,
    .process_alive = process_alive,
    .process_name = process_name,
    .may_observe = may_observe,
    .may_observe_pid = may_observe_pid,
    .process_headless = process_headless,
    .process_watch = process_watch,
    .process_unwatch = process_unwatch,
    .pid_seen_by = pid_seen_by,
    .caller_pid = caller_pid,
    .pid_key = pid_key,
    .caller_key = pid_key,
    .inventory = inventory,
    .kernel_maps = kernel_maps,
    .view_open = view_open,
    .view_free = view_free,
    .view_pid = view_pid,
    .view_forget_pid = view_forget_pid,
    .view_print = view_print,
    .view_adopt = view_adopt,
    .view_forget = view_free,
    .cgroup_open = cgroup_open,
    .cgroup_root = cgroup_root,
    .cgroup_reopen_root = cgroup_reopen_root,
    .cgroup_watch = cgroup_watch,
    .cgroup_unwatch = cgroup_unwatch,
    .cgroup_key = cgroup_key,
    .cgroup_alive = cgroup_alive,
    .process_print = process_print,
    .process_adopt = process_adopt,
    .process_forget = process_free,
};
