/*
 * An engine on the simulated PMU and the fake host, driven as fs/ drives it: a request is one call,
 * run to its end; or held where it has no lock, to let something else happen there.
 */
#pragma once

#include "core/engine.h"
#include "core/log/record.h"
#include "tests/unit/fake_host.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

#define TEXTS_MAX (1 << 20)

/* Operations of the backend that can be told to fail: the n-th from now (0: never). */
enum failing {
    FAIL_RESOLVE,
    FAIL_CHECK_SET,
    FAIL_ATTACH,
    FAIL_START,
    FAIL_READ,
    FAIL_KINDS
};

struct fixture {
    struct host_state host;
    struct tunables tunables;
    struct engine *engine;
    struct journal *journal;
    struct backend_state *sim;
    struct sink sink;
    const char *options;
    pid_t tid;         /* that writes and reads from now on */
    uint64_t instance; /* through which instance; 0: the root */
    struct rights *rights;
    bool lazy;      /* the engine's own tasks wait until works_run() */
    int rc;         /* of the last operation, negative errno */
    struct err err; /* its sentence */
    unsigned fail[FAIL_KINDS];
    bool restricted;     /* every event is for the superuser */
    unsigned verified;   /* how often the backend was asked whether it can count something */
    enum err_id fail_id; /* of an attach; ERR_NONE: P14 */
    atomic_bool interrupted;        /* nobody waits for an answer */
    unsigned n_reads;               /* of counters */
    bool reads_wait;                /* they need somebody patient */
    void (*on_attach)(void);        /* called after a counter was opened */
    unsigned n_guards;              /* that exist */
    struct buf told;                /* records that the next drain hands over (recorders_on) */
    unsigned n_recorders;           /* that exist */
    unsigned n_drains;
    unsigned n_stopped;     /* counters, before the last drain … */
    bool in_pool;           /* … and was that in a slow part? */
    uint64_t ring_bytes;    /* of each CPU's buffer of the last recorder */
    struct plan plan;       /* of the last attach */
    void (*on_start)(void); /* called after a counter was started */
};
extern struct fixture fx;

#define HELD 1000 /* a request's answer is not there yet */

/* One request, in a thread of its own that is held wherever it lets go of the lock or takes it. */
struct held {
    struct call call;
    struct buf out;
    uint64_t pmc;
    int rc; /* or HELD */
    bool is_read, ran, ended;
    int (*operation)(struct held *held);
    const char *name;
    pthread_t thread;
    sem_t go, stopped;
};

/*
 * Processes 100-109 belong to uid 1000, 200-209 to uid 2000, 50 to root; 109 has threads 1091,
 * 1092. Begins as process 50 with the superuser's rights. options: of sim, NULL is "sim_cpus=4
 * sim_rows=4".
 */
void fixture_open(const char *options);
void fixture_close(void); /* nothing may be left */
void fixture_setup(void); /* for SUITE_SETUP */
void guards_on(void);     /* from now on processes are guarded */
/* From now on counters write into recorders that tell what fx.told holds, and nothing else. */
void recorders_on(void);
void recorders_off(void); /* there are none */
/* One record into fx.told. */
void tell_note(enum record_type type, uint64_t time_ns, pid_t pid, uint64_t value, unsigned misc);
void tell_sample(uint64_t time_ns, pid_t pid, uint64_t ip);
/*
 * The PMC's log from its beginning, a word for each record: "allocate:cycles attach:100 start
 * sample:7 csw:5 …": notes with their text (blanks as "/"), samples with ip, counts with their
 * value.
 */
const char *log_words(const char *name);

void as_root(void);
void as_user(pid_t tid, uid_t uid);
void pass_ms(uint64_t ms);
void tune(enum tunable which, const char *value);

/* All answer a positive errno or 0; the sentence is in fx.err. */
int pmc_make(const char *name);
int pmc_remove(const char *name);
int pmc_rename(const char *from, const char *to);
struct pmc *pmc_of(const char *name);
/* file: of the PMC, or with name NULL of the instance ("info/rows", "counts" …). */
int write_file(const char *name, const char *file, const char *text);
int write_open(struct open_file *open, const char *name, const char *file, const char *text);
int write_slot(unsigned cpu, unsigned row, const char *text);
/* The text, or the errno's name ("ENODATA") when it was refused. Good until eight reads later. */
const char *read_file(const char *name, const char *file);
const char *read_open(struct open_file *open, const char *name, const char *file);
/* A value of a text of "name value" or "name=value" lines: status, config, info/stats. */
const char *value_of(const char *name, const char *file, const char *key);
uint64_t count_of(const char *name);
/* A PMC with this event, attached to targets ("": none) */
void pmc_with(const char *name, const char *event, const char *targets);

/* An open file as the present user would have it. */
void file_open(struct open_file *open);
void file_close(struct open_file *open);

/*
 * Step by step: up to where it lets go of the lock; held_run(): to where it takes it again;
 * held_step(): to where it lets go of it the next time, or to the end.
 */
void held_start(struct held *held, int (*operation)(struct held *held));
void held_task(struct held *held); /* of the engine's own; -ENOENT: there is none */
void held_write(struct held *held, const char *name, const char *file, const char *text);
void held_read(struct held *held, const char *name, const char *file);
void held_run(struct held *held);
int held_step(struct held *held); /* its rc */
int held_finish(struct held *held);
const char *held_text(struct held *held);

void works_run(void);
void retries_run(void); /* and what was refused is tried again */
/* Every text of every PMC and of the instance that a refused operation must not change. Static,
 * two. */
const char *all_texts(void);
bool texts_same(const char *before); /* if not, fx.err.text is where they differ */
/* The journal as a text, owned by the caller: a line "@KIND ID" before each record's lines. */
char *journal_text(void);
void engine_left(void); /* like engine_forget(): there is none then, and the caller is nobody */
void engine_anew(void); /* a fresh one in its place; counters and the machine stay */
int journal_load(const char *text, size_t len, struct err *err); /* into a fresh one */
void engine_reload(void); /* all three, with the same caller */
/* The operation is refused with this id, and nothing changed. */
#define refused(pmc_name, to, command, code, which)                                                \
    do {                                                                                           \
        const char *texts_before = all_texts();                                                    \
        ck_assert_msg(write_file(pmc_name, to, command) == (code), "%s: %s: %s", to, command,      \
                      fx.rc ? fx.err.text : "accepted");                                           \
        ck_assert_msg(fx.err.id == (which), "%s: %s: %s: %s", to, command,                         \
                      err_table[fx.err.id].id ? err_table[fx.err.id].id : "-", fx.err.text);       \
        ck_assert_msg(texts_same(texts_before), "%s: %s: changed: %s", to, command, fx.err.text);  \
    } while (0)
#define accepted(pmc_name, to, command)                                                            \
    ck_assert_msg(write_file(pmc_name, to, command) == 0, "%s: %s: %s", to, command, fx.err.text)
