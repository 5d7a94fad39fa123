/*
 * Calls the engine as fs/requests/request.c does, without a mount.
 */
#include "tests/unit/fixture.h"

#include "backends/backends.h"
#include "core/pmc/pmc.h"
#include "core/users/users.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fixture fx;

static void must(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "fixture: %s: %s\n", what, fx.err.text);
    abort();
}

/* ---- a backend whose operations can be made to fail ---- */

static struct backend backend;

static bool fails(enum failing kind)
{
    return fx.fail[kind] > 0 && --fx.fail[kind] == 0;
}

static int failing_resolve(struct backend_state *state, const char *text, struct event *out,
                           struct err *err)
{
    int rc = fails(FAIL_RESOLVE) ? err_set(err, CS01, "made to fail")
                                 : sim_backend.resolve(state, text, out, err);

    out->needs_superuser = fx.restricted;
    return rc;
}

static int counting_verify(struct backend_state *state, struct event *event, struct err *err)
{
    (void)state, (void)event, (void)err;
    fx.verified++;
    return 0;
}

static int failing_check_set(struct backend_state *state, const struct plan_event *events,
                             unsigned n, bool multiplex, struct err *err)
{
    fx.verified++;
    return fails(FAIL_CHECK_SET) ? err_set(err, E19, "made to fail")
                                 : sim_backend.check_set(state, events, n, multiplex, err);
}

/* The plan for sim if the fixture's recorders are used: count only. */
static struct plan plan_counting(const struct plan *plan)
{
    struct plan counting = *plan;

    counting.recorder = NULL;
    counting.sampling = counting.values_at_switch = counting.values_at_exit = false;
    return counting;
}

static int failing_attach(struct backend_state *state, const struct plan *plan,
                          struct counter **out, struct err *err)
{
    bool ours = backend.recorder_new != sim_backend.recorder_new;
    struct plan counting = plan_counting(plan);
    int rc = fails(FAIL_ATTACH) ? err_set(err, fx.fail_id ? fx.fail_id : P14, "made to fail")
                                : sim_backend.attach(state, ours ? &counting : plan, out, err);

    fx.plan = *plan;

    if (rc == 0 && fx.on_attach)
        fx.on_attach();
    return rc;
}

/* Guards do not fire by themselves: tests call sink.guard_fired() or set fx.guard_lost_events. */
static int counted_guard(struct backend_state *state, pid_t pid, uint64_t tag, struct guard **out)
{
    (void)state, (void)pid, (void)tag;
    *out = malloc(1);
    fx.n_guards += *out != NULL;
    fx.guards_opened += *out != NULL;
    return *out ? 0 : -ENOMEM;
}

static void counted_unguard(struct guard *guard)
{
    fx.n_guards--;
    free(guard);
}

/* ---- recorders that deliver the records of a test ---- */

struct recorder {
    uint64_t bytes;
};

static int fake_recorder_new(struct backend_state *state, const struct recorder_plan *plan,
                             struct recorder **out, struct err *err)
{
    (void)state;
    if (plan->fds_left < 3)
        return err_set(err, P10, "needs 3 descriptors");
    *out = malloc(sizeof **out);
    must(*out, "no memory");
    (*out)->bytes = fx.ring_bytes = plan->bytes;
    fx.n_recorders++;
    return 0;
}

static void fake_recorder_facts(const struct recorder *recorder, struct recorder_facts *out)
{
    *out = (struct recorder_facts){.descriptors = 3, .bytes = 4 * recorder->bytes};
}

static unsigned n_stops; /* number of counters stopped so far */
static _Thread_local bool runs_slow;

static int counted_stop(struct counter *counter)
{
    n_stops++;
    return sim_backend.stop(counter);
}

static uint64_t fake_recorder_drain(struct recorder *recorder, bool all,
                                    const struct intake *intake)
{
    (void)recorder, (void)all;
    fx.n_drains++;
    fx.n_stopped = n_stops;
    fx.in_pool = runs_slow;
    for (size_t at = 0; at < fx.pending.len;) {
        const struct record *record = (const struct record *)(fx.pending.data + at);

        intake->put(intake->arg, record);
        at += record->size;
    }
    buf_clear(&fx.pending);
    return fx.host.now_ns;
}

static void fake_recorder_print(const struct recorder *recorder, struct buf *out)
{
    buf_u64(out, recorder->bytes);
}

static int fake_recorder_adopt(struct backend_state *state, const struct recorder_plan *plan,
                               const char *printed, struct recorder **out)
{
    struct recorder_plan again = *plan;

    again.bytes = strtoull(printed, NULL, 10);
    return fake_recorder_new(state, &again, out, NULL);
}

static void fake_recorder_free(struct recorder *recorder)
{
    fx.n_recorders -= recorder != NULL;
    free(recorder);
}

static void fake_recorder_limits(struct backend_state *state, struct sample_limits *out)
{
    (void)state;
    *out = (struct sample_limits){.max_freq = 100000, .max_frames = 127};
}

static int counting_adopt(struct backend_state *state, const struct plan *plan, const char *printed,
                          struct counter **out)
{
    struct plan counting = plan_counting(plan);

    fx.plan = *plan;
    return sim_backend.adopt(state, &counting, printed, out);
}

struct user *user_find(const struct engine *engine, uid_t uid)
{
    struct user *user = engine->users[uid % USER_BUCKETS];

    while (user && (user->uid != uid || user->instance))
        user = user->next;
    return user;
}

void recorders_on(void)
{
    backend.recorder_new = fake_recorder_new;
    backend.recorder_facts = fake_recorder_facts;
    backend.drain = fake_recorder_drain;
    backend.recorder_print = fake_recorder_print;
    backend.recorder_adopt = fake_recorder_adopt;
    backend.recorder_forget = fake_recorder_free;
    backend.recorder_free = fake_recorder_free;
    backend.sample_limits = fake_recorder_limits;
    backend.stop = counted_stop;
    n_stops = 0;
    backend.adopt = counting_adopt;
}

void pending_note(enum record_type type, uint64_t time_ns, pid_t pid, uint64_t value, unsigned misc)
{
    const uint64_t values[] = {time_ns, value}; /* the time as the id of a new event group */
    const bool two = type == RECORD_VALUES;

    record_add_note(&fx.pending, &(struct note){.type = type,
                                                .misc = misc,
                                                .time = time_ns,
                                                .pid = (uint32_t)pid,
                                                .tid = (uint32_t)pid,
                                                .n = two ? 2 : 1,
                                                .value = two ? values : &value});
}

void pending_sample(uint64_t time_ns, pid_t pid, uint64_t ip)
{
    struct record_sample sample = {.id = fx.plan.set_number << 8,
                                   .ip = ip,
                                   .pid = (uint32_t)pid,
                                   .tid = (uint32_t)pid,
                                   .time = time_ns,
                                   .period = 1};

    record_add_sample(&fx.pending, &sample, RECORD_USERMODE, NULL, 0);
}

static void log_word(const struct record *record, struct buf *out)
{
    const struct record_note *note = (const struct record_note *)record;
    unsigned row = 0;

    if (record->type == RECORD_COMM || record->type == RECORD_MAP) {
        if (out->len < 4 || memcmp(out->data + out->len - 4, "maps", 4) != 0)
            buf_str(out, out->len ? " maps" : "maps");
        return;
    }
    while (row < record_rows && record_table[row].type != record->type)
        row++;
    buf_str(out, out->len ? " " : "");
    buf_str(out, row < record_rows ? record_table[row].word : "?");
    if (record->type == RECORD_SAMPLE)
        buf_printf(out, ":%llx", (unsigned long long)((const struct record_sample *)record)->ip);
    if (!record_is_note(record))
        return;
    if (note->text_len)
        buf_char(out, ':');
    for (unsigned i = 0; i < note->text_len; i++)
        buf_char(out, note_text(note)[i] == ' ' ? '/' : note_text(note)[i]);
    for (unsigned i = 0; i < note->n; i++)
        buf_printf(out, ":%llu", (unsigned long long)note->value[i]);
}

const char *log_words(const char *name)
{
    static char *kept[4];
    static unsigned at;
    struct buf records = {0}, words = {0};
    struct pmc *pmc = pmc_of(name);
    bool any = pmc_has_log(pmc) && pmc_ensure_log(pmc);
    struct log_cursor *cursor = any ? log_open(pmc->log) : NULL;

    while (cursor && log_read(cursor, &records, 1 << 20))
        ;
    for (size_t i = 0; i < records.len;) {
        const struct record *record = (const struct record *)(records.data + i);

        log_word(record, &words);
        i += record->size;
    }
    log_close(cursor);
    free(kept[at % 4]);
    kept[at % 4] = strdup(buf_text(&words));
    buf_free(&records);
    buf_free(&words);
    return kept[at++ % 4];
}

static int no_fd(const struct guard *guard)
{
    (void)guard;
    return 0;
}

static bool guard_returns_lost(const struct guard *guard)
{
    (void)guard;
    return fx.guard_lost_events;
}

void guards_on(void)
{
    backend.guard = counted_guard;
    backend.unguard = counted_unguard;
    backend.guard_lost_events = guard_returns_lost;
    backend.guard_fd = no_fd;
}

static int failing_start(struct counter *counter, struct err *err)
{
    int rc =
        fails(FAIL_START) ? err_set(err, P14, "made to fail") : sim_backend.start(counter, err);

    if (rc == 0 && fx.on_start)
        fx.on_start();
    return rc;
}

static const struct class_info *classes_with_sum(struct backend_state *state, unsigned *n)
{
    static struct class_info classes[8];
    const struct class_info *sim = sim_backend.classes(state, n);

    must(*n <= 8, "too many classes");
    memcpy(classes, sim, *n * sizeof *classes);
    fx.parts = *n > 2 && strcmp(classes[2].name, "sum") == 0;
    classes[2].n_core_pmus = fx.parts ? 2 : 0;
    return classes;
}

static void reading_split(struct reading *out)
{
    const unsigned n = fx.plan.n;
    uint64_t *first = &out->value[core_pmu_index(n, 0)],
             *second = &out->value[core_pmu_index(n, 1)];

    for (unsigned i = 0; i <= n; i++) {
        const uint64_t entire = i < n ? out->value[i] : out->running_ns;

        first[i] = entire / 4;
        second[i] = entire - first[i];
    }
}

static int failing_read(struct counter *counter, struct reading *out, bool patient)
{
    int rc;

    __atomic_add_fetch(&fx.n_reads, 1, __ATOMIC_RELAXED);
    if (fx.reads_wait && !patient)
        return -EAGAIN;
    rc = fails(FAIL_READ) ? -EIO : sim_backend.read(counter, out, patient);
    if (!rc && fx.parts)
        reading_split(out);
    return rc;
}

/* ---- dropping the lock ---- */

static _Thread_local struct held *here_held; /* the held request that this thread runs */

static void held_stop(struct held *held, bool ran)
{
    held->ran = ran;
    sem_post(&held->stopped);
    sem_wait(&held->go);
}

static int unlock_admit(struct call *call)
{
    (void)call;
    return 0;
}

static void unlock_leave(struct call *call, bool gives_up_slot)
{
    (void)call;
    if (here_held)
        held_stop(here_held, false);
    runs_slow = gives_up_slot;
}

static void unlock_take(struct call *call)
{
    runs_slow = false;
    if (here_held) {
        held_stop(here_held, true);
        call->pmc = here_held->pmc ? ids_find(&fx.engine->pmcs, here_held->pmc) : NULL;
        call->instance = engine_instance(fx.engine, fx.instance);
    }
    call->now_ns = fx.host.now_ns;
}

static bool unlock_interrupted(struct call *call)
{
    (void)call;
    return fx.interrupted;
}

static const struct unlock_ops unlock = {unlock_admit, unlock_leave, unlock_take,
                                         unlock_interrupted};

/* ---- setup and teardown ---- */

static bool is_reserved(const char *name)
{
    return strcmp(name, "info") == 0 || strcmp(name, "counts") == 0 ||
           strncmp(name, "metrics.", 8) == 0;
}

static void engine_begin(void)
{
    fx.engine = engine_new(&fx.tunables);
    must(fx.engine, "no engine");
    fx.engine->is_reserved_name = is_reserved;
    fx.sink = engine_sink(&fx.engine);
    must(engine_start(fx.engine, &fake_host, &fx.host, &backend, fx.sim, &fx.err) == 0,
         "engine_start");
    fx.engine->unlock = &unlock;
}

static void people(void)
{
    struct fake_process *process;

    fake_add(&fx.host, 50, 0);
    for (pid_t i = 0; i < 10; i++) {
        fake_add(&fx.host, 100 + i, 1000);
        fake_add(&fx.host, 200 + i, 2000);
    }
    process = fake_find(&fx.host, 109);
    process->tid[0] = 1091;
    process->tid[1] = 1092;
}

void fixture_open(const char *options)
{
    fx = (struct fixture){.options = options ? options : "sim_cpus=4 sim_rows=4"};
    backend = sim_backend;
    backend.resolve = failing_resolve;
    backend.verify = counting_verify;
    backend.check_set = failing_check_set;
    backend.attach = failing_attach;
    backend.start = failing_start;
    backend.read = failing_read;
    backend.classes = classes_with_sum;
    fake_init(&fx.host, &fx.sink);
    people();
    tunables_init(&fx.tunables);
    must(backend.open(fx.options, &fake_host, &fx.host, NULL, &fx.sink, &fx.sim, &fx.err) == 0,
         "open");
    backend.cpus(fx.sim, &fx.host.possible, &fx.host.online);
    engine_begin();
    fx.journal = journal_new();
    must(fx.journal, "a journal");
    engine_set_journal(fx.engine, fx.journal);
    as_root();
}

void fixture_setup(void)
{
    fixture_open(NULL);
}

void fixture_close(void)
{
    rights_unref(fx.rights);
    if (fx.engine)
        engine_set_journal(fx.engine, NULL);
    engine_free(fx.engine);
    journal_free(fx.journal);
    backend.close(fx.sim);
    buf_free(&fx.pending);
    must(fx.n_recorders == 0, "a recorder is still there");
    fake_clear(&fx.host);
    fx.rights = NULL;
}

/* Returns the engine's shared object of these rights (rights_share()), charged to nobody. */
static struct rights *kept_rights(uid_t uid, bool superuser)
{
    struct rights *rights = fake_rights(uid, superuser);

    must(rights_share(fx.engine, NULL, &rights, &fx.err) == 0, "rights");
    return rights;
}

static void become(pid_t tid, uid_t uid, bool superuser)
{
    rights_unref(fx.rights);
    fx.rights = kept_rights(uid, superuser);
    fx.tid = tid;
}

void engine_drop(void)
{
    rights_unref(fx.rights);
    fx.rights = NULL;
    engine_forget(fx.engine);
    fx.engine = NULL;
}

void engine_recreate(void)
{
    engine_drop();
    engine_begin();
}

void engine_reload(void)
{
    works_run();
    engine_prepare_reload(fx.engine);
    engine_write_records(fx.engine);
    engine_publish(fx.engine, true, false);
    if (!engine_check(fx.engine, &fx.err))
        must(false, "engine_check");
    uid_t uid = fx.rights->uid;
    bool superuser = fx.rights->superuser;
    engine_recreate();
    must(engine_load(fx.engine, fx.journal, &fx.err) == 0, "engine_load");
    engine_set_journal(fx.engine, fx.journal);
    engine_finish_load(fx.engine);
    become(fx.tid, uid, superuser);
}

static bool text_add(void *arg, const struct journal_record *record)
{
    struct buf *text = arg;

    buf_printf(text, "@%" PRIu32 " %" PRIu64 "\n", record->kind, record->id);
    buf_add(text, record->text, journal_text_len(record));
    return true;
}

char *journal_text(void)
{
    struct buf text = {0};

    works_run();
    engine_write_records(fx.engine);
    engine_publish(fx.engine, true, false);
    journal_each(fx.journal, 0, text_add, &text);
    char *copy = strdup(buf_text(&text));
    buf_free(&text);
    return copy;
}

int journal_load(const char *text, size_t len, struct err *err)
{
    struct journal *journal = journal_new();
    const char *end = text + len, *next;
    int rc;

    if (!journal)
        return -EINVAL;
    for (; text < end; text = next) {
        const char *line = memchr(text, '\n', (size_t)(end - text));
        uint64_t id = 0;
        uint32_t kind = 0;

        line = line ? line + 1 : end;
        next = memmem(line, (size_t)(end - line), "\n@", 2);
        next = next ? next + 1 : end;
        if (*text == '@' && len < 1 << 20)
            sscanf(text + 1, "%" SCNu32 " %" SCNu64, &kind, &id);
        journal_put(journal, kind, id, line, (size_t)(next - line));
    }
    journal_publish(journal);
    rc = engine_load(fx.engine, journal, err);
    engine_finish_load(fx.engine);
    journal_free(journal);
    return rc;
}

void as_root(void)
{
    become(50, 0, true);
}

void as_user(pid_t tid, uid_t uid)
{
    become(tid, uid, false);
}

void pass_ms(uint64_t ms)
{
    fake_pass_ms(&fx.host, ms);
}

void tune(enum tunable which, const char *value)
{
    struct tunables tunables = fx.engine->tunables;

    must(tunable_set(&tunables, which, (struct word){value, strlen(value)}, true, &fx.err) == 0,
         "tune");
    engine_retune(fx.engine, &tunables);
}

/* ---- files ---- */

static const struct file {
    const char *name;
    show_fn show; /* or the function of a stream */
    store_fn store;
} pmc_files[] =
    {
        {"config", show_config, store_command},
        {"event", show_event, store_command},
        {"mode", show_mode, store_command},
        {"target", show_target, store_command},
        {"ctl", show_ctl, store_command},
        {"count", show_count, store_command},
        {"detail", show_detail, NULL},
        {"status", show_status, NULL},
        {"error", show_error, NULL},
        {"series", stream_series, NULL},
        {"samples", stream_samples, store_samples},
        {"samples.perf", stream_samples_perf, NULL},
        {"samples.folded", show_samples_folded, NULL},
        {NULL, NULL, NULL},
},
  instance_files[] = {
      {"counts", show_counts, NULL},
      {"metrics.prom", show_metrics_prom, NULL},
      {"info/version", show_info_version, NULL},
      {"info/backend", show_info_backend, NULL},
      {"info/cpu", show_info_cpu, NULL},
      {"info/cpus", show_info_cpus, NULL},
      {"info/npmc", show_info_npmc, NULL},
      {"info/classes", show_info_classes, NULL},
      {"info/rows", show_info_rows, NULL},
      {"info/stats", show_info_stats, NULL},
      {"info/last_error", show_info_last_error, NULL},
      {NULL, NULL, NULL},
};

static const struct file *file_find(bool of_pmc, const char *name)
{
    const struct file *file = of_pmc ? pmc_files : instance_files;

    while (file->name && strcmp(file->name, name) != 0)
        file++;
    must(file->name, name);
    return file;
}

static struct instance *here(void)
{
    return engine_instance(fx.engine, fx.instance);
}

struct pmc *pmc_of(const char *name)
{
    return instance_find(here(), name);
}

/* ---- held requests ---- */

static void held_init(struct held *held)
{
    memset(held, 0, sizeof *held);
    held->call = (struct call){
        .engine = fx.engine,
        .instance = here(),
        .rights = fx.rights,
        .uid = fx.rights->uid,
        .payer = fx.rights->payer,
        .gid = fx.rights->gid,
        .tid = fx.tid,
        .out = &held->out,
        .room = 1 << 17,
        .now_ns = fx.host.now_ns,
    };
    held->out = (struct buf){0};
}

static void held_for(struct held *held, const char *name, const char *file)
{
    struct pmc attr;

    held_init(held);
    held->call.file = file;
    if (!name)
        return;
    held->call.pmc = pmc_of(name);
    must(held->call.pmc, name);
    attr = *held->call.pmc;
    held->pmc = attr.id;
}

static void *held_main(void *arg)
{
    struct held *held = here_held = arg;

    held->rc = held->operation(held);
    held->ended = true;
    sem_post(&held->stopped);
    return NULL;
}

/* Waits until the thread drops or takes the lock, or has finished. */
static void held_wait(struct held *held)
{
    while (sem_wait(&held->stopped) < 0)
        ;
    if (held->ended)
        pthread_join(held->thread, NULL);
    else
        held->rc = HELD;
}

void held_start(struct held *held, int (*operation)(struct held *held))
{
    held->operation = operation;
    held->ended = false;
    sem_init(&held->go, 0, 0);
    sem_init(&held->stopped, 0, 0);
    must(pthread_create(&held->thread, NULL, held_main, held) == 0, "no thread");
    held_wait(held);
}

void held_run(struct held *held)
{
    sem_post(&held->go);
    held_wait(held);
}

int held_step(struct held *held)
{
    if (!held->ran)
        held_run(held);
    sem_post(&held->go);
    held_wait(held);
    return held->rc;
}

static int task_operation(struct held *held)
{
    return engine_task(&held->call) ? CALL_DONE : -ENOENT;
}

void held_task(struct held *held)
{
    memset(held, 0, sizeof *held);
    held->call = (struct call){.engine = fx.engine, .instance = fx.engine->root};
    held_start(held, task_operation);
}

/* Sets fx.rc and fx.err, and runs the engine's tasks unless fx.lazy is set. Returns a positive
 * errno or 0, or CALL_WAIT. */
static int held_end(struct held *held)
{
    struct call *call = &held->call;
    const char *place = call->file ? call->file : "tree";

    call->pmc = held->pmc ? ids_find(&fx.engine->pmcs, held->pmc) : NULL;
    fx.rc = held->rc;
    fx.err = call->err;
    if (held->rc == CALL_WAIT)
        return CALL_WAIT;
    if (call->err.id == ERR_NONE || (held->is_read && held->rc != -EIO))
        place = NULL;
    engine_note_result(call, held->rc, place, !held->is_read);
    if (!fx.lazy)
        works_run();
    return -held->rc;
}

int held_finish(struct held *held)
{
    int rc;

    while (held->rc == HELD)
        held_step(held);
    rc = held_end(held);
    if (!held->is_read)
        buf_free(&held->out);
    return rc;
}

static int write_operation(struct held *held)
{
    return file_find(true, held->call.file)->store(&held->call);
}

void held_write(struct held *held, const char *name, const char *file, const char *text)
{
    held_for(held, name, file);
    held->call.text = text;
    held->call.len = strlen(text);
    held_start(held, write_operation);
}

static int read_operation(struct held *held)
{
    return file_find(held->name != NULL, held->call.file)->show(&held->call);
}

void held_read(struct held *held, const char *name, const char *file)
{
    held_for(held, name, file);
    held->name = name;
    held->is_read = true;
    held_start(held, read_operation);
}

const char *held_text(struct held *held)
{
    static char *texts[8];
    static unsigned at;
    char **text = &texts[at++ % 8];

    free(*text);
    if (held->rc == CALL_WAIT)
        *text = strdup("WAIT");
    else
        *text = strdup(held->rc < 0 ? err_errno_name(held->rc) : buf_text(&held->out));
    buf_free(&held->out);
    return *text;
}

int write_open(struct open_file *open, const char *name, const char *file, const char *text)
{
    struct held held;

    held_for(&held, name, file);
    held.call.text = text;
    held.call.len = strlen(text);
    held.call.open = open;
    held.rc = file_find(true, file)->store(&held.call);
    return held_finish(&held);
}

int write_file(const char *name, const char *file, const char *text)
{
    return write_open(NULL, name, file, text);
}

int write_slot(unsigned cpu, unsigned row, const char *text)
{
    struct held held;

    held_init(&held);
    held.call.file = "admin";
    held.call.object = (uint64_t)cpu << 16 | row;
    held.call.text = text;
    held.call.len = strlen(text);
    held.rc = store_slot(&held.call);
    return held_finish(&held);
}

const char *read_open(struct open_file *open, const char *name, const char *file)
{
    struct held held;

    held_for(&held, name, file);
    held.is_read = true;
    held.call.open = open;
    held.rc = file_find(name != NULL, file)->show(&held.call);
    held_finish(&held);
    return held_text(&held);
}

const char *read_file(const char *name, const char *file)
{
    return read_open(NULL, name, file);
}

const char *value_of(const char *name, const char *file, const char *key)
{
    static char value[8][4096];
    static unsigned at;
    const char *line = read_file(name, file);
    size_t len = strlen(key);
    char *out = value[at++ % 8];

    for (; line && *line; line = strchr(line, '\n'), line += line != NULL) {
        if (strncmp(line, key, len) != 0 || (line[len] != ' ' && line[len] != '='))
            continue;
        snprintf(out, sizeof value[0], "%.*s", (int)strcspn(line + len + 1, "\n"), line + len + 1);
        return out;
    }
    return "none";
}

uint64_t count_of(const char *name)
{
    return strtoull(read_file(name, "count"), NULL, 10);
}

/* ---- the tree ---- */

int pmc_make(const char *name)
{
    struct held held;
    uint64_t id;

    held_init(&held);
    held.call.creator_pid = fake_host.caller_pid(&fx.host, fx.tid);
    held.call.creator_key = fake_host.pid_key(&fx.host, fx.tid);
    held.rc = engine_mkdir(&held.call, name, 0777, &id);
    return held_finish(&held);
}

int pmc_remove(const char *name)
{
    struct held held;

    held_init(&held);
    held.rc = engine_rmdir(&held.call, name);
    return held_finish(&held);
}

int pmc_rename(const char *from, const char *to)
{
    struct held held;

    held_init(&held);
    held.rc = engine_rename(&held.call, from, to);
    return held_finish(&held);
}

void pmc_with(const char *name, const char *event, const char *targets)
{
    must(pmc_make(name) == 0, "mkdir");
    must(write_file(name, "event", event) == 0, event);
    must(!*targets || write_file(name, "target", targets) == 0, targets);
}

void file_open(struct open_file *open)
{
    *open = (struct open_file){.holds = 0};
}

void file_close(struct open_file *open)
{
    open_file_release(fx.engine, open);
    open_file_clear(open);
    works_run();
}

void works_run(void)
{
    struct call call = {.engine = fx.engine, .instance = fx.engine->root, .now_ns = fx.host.now_ns};
    struct gone_name gone;
    uint64_t id;

    while (engine_task(&call))
        ;
    while (engine_next_wake(fx.engine, &id) || engine_next_name(fx.engine, &gone))
        ;
}

void retries_run(void)
{
    works_run();
    pass_ms(100);
    engine_tick(fx.engine, fx.host.now_ns);
    works_run();
}

/* ---- all texts of the tree ---- */

static void add_text(struct buf *texts, const char *name, const char *file)
{
    struct held held;

    held_for(&held, name, file);
    held.is_read = true;
    held.rc = file_find(name != NULL, file)->show(&held.call);
    buf_printf(texts, "== %s/%s\n", name ? name : "", file);
    buf_str(texts, held_text(&held));
}

const char *all_texts(void)
{
    static const char *const shown[] = {"config", "mode",   "ctl",   "count",
                                        "detail", "status", "target"};
    static char *kept[2];
    static unsigned at;
    struct buf texts = {0};
    uint64_t id = 0;

    for (const char *name; (name = engine_pmc_next(fx.engine->root, id, &id));) {
        const struct pmc attr = *pmc_of(name);

        buf_printf(&texts, "== %s %u %u %o\n", attr.name, (unsigned)attr.uid, (unsigned)attr.gid,
                   (unsigned)attr.mode);
        for (unsigned i = 0; i < sizeof shown / sizeof shown[0]; i++)
            add_text(&texts, attr.name, shown[i]);
    }
    add_text(&texts, NULL, "info/rows");
    add_text(&texts, NULL, "info/classes");
    add_text(&texts, NULL, "counts");
    free(kept[at % 2]);
    kept[at % 2] = strdup(buf_text(&texts));
    buf_free(&texts);
    return kept[at++ % 2];
}

bool texts_same(const char *before)
{
    const char *after = all_texts();
    size_t i = 0, begin;

    while (before[i] && before[i] == after[i])
        i++;
    if (before[i] == after[i])
        return true;
    for (begin = i; begin > 0 && before[begin] != '\n'; begin--)
        ;
    snprintf(fx.err.text, sizeof fx.err.text, "%.200s --- became --- %.200s", before + begin,
             after + begin);
    return false;
}
