/*
 * An engine on the simulated PMU and the fake host, called as fs/ calls it. A request is one call
 * that runs to its end, or a held request (struct held) that stops wherever it drops or takes the
 * lock, so that a test can do something else there.
 */
#pragma once

#include "core/engine.h"
#include "core/log/record.h"
#include "tests/unit/fake_host.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

#define TEXTS_MAX (1 << 20)

/* Operations of the backend. fx.fail[…] = n lets the n-th call from now fail (0: none). */
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
    pid_t tid;         /* the thread that makes requests */
    uint64_t instance; /* the instance of requests; 0: the root */
    struct rights *rights;
    bool lazy;      /* the engine's tasks run only in works_run() */
    int rc;         /* result of the last operation: a negative errno, 0, or CALL_WAIT */
    struct err err; /* the error of the last operation */
    unsigned fail[FAIL_KINDS];
    bool restricted;         /* every event needs the superuser */
    unsigned verified;       /* number of verify() and check_set() calls of the backend */
    enum err_id fail_id;     /* error id of a failing attach; ERR_NONE: P14 */
    atomic_bool interrupted; /* the kernel no longer waits for the answer */
    unsigned n_reads;        /* number of counter reads */
    bool reads_wait;         /* counters return -EAGAIN to a read that may not wait */
    void (*on_attach)(void); /* called after a counter was opened */
    unsigned n_guards;       /* existing exec guards */
    unsigned guards_opened;  /* exec guards opened so far */
    bool guard_lost_events;  /* what guard_lost_events() of the backend returns for each guard */
    struct buf pending;      /* records that the next drain delivers (recorders_on) */
    unsigned n_recorders;    /* existing recorders */
    unsigned n_drains;
    unsigned n_stopped;     /* number of counters stopped before the last drain */
    bool in_pool;           /* the last drain ran in a slow part */
    uint64_t ring_bytes;    /* size of each ring buffer of the last recorder */
    struct plan plan;       /* the plan of the last attach or adoption */
    void (*on_start)(void); /* called after a counter was started */
    bool parts;             /* the third class is `sum`: see fixture_open() */
};
extern struct fixture fx;

#define HELD 1000 /* the request has not finished */

/* One request in a separate thread, which stops wherever it drops or takes the lock. */
struct held {
    struct call call;
    struct buf out;
    uint64_t pmc;
    int rc; /* the result, or HELD */
    bool is_read, ran, ended;
    int (*operation)(struct held *held);
    const char *name;
    pthread_t thread;
    sem_t go, stopped;
};

/*
 * Processes 100-109 belong to uid 1000, 200-209 to uid 2000, 50 to root; 109 has threads 1091,
 * 1092. The caller is process 50, the superuser. options are those of sim; NULL is "sim_cpus=4
 * sim_rows=4". If the third class is named `sum`, it counts with the two classes before it: a
 * quarter of each value is counted by the first one.
 */
void fixture_open(const char *options);
void fixture_close(void); /* asserts that nothing is leaked */
void fixture_setup(void); /* fixture_open(NULL), for SUITE_SETUP */
void guards_on(void);     /* enables exec guards */
/* Returns the user's account in all instances, or NULL if there is none. */
struct user *user_find(const struct engine *engine, uid_t uid);
/* From now on counters have recorders, whose next drain delivers and clears fx.pending. */
void recorders_on(void);
/* Appends one record to fx.pending. */
void pending_note(enum record_type type, uint64_t time_ns, pid_t pid, uint64_t value,
                  unsigned misc);
void pending_sample(uint64_t time_ns, pid_t pid, uint64_t ip);
/*
 * Returns the PMC's log from its start, one word for each record: "allocate:cycles attach:100 start
 * sample:7 csw:5 …". Notes have their text (blanks as "/"), samples the ip in hexadecimal, counts
 * the value; COMM and MAP records in a row are one word "maps". Valid during the next three calls.
 */
const char *log_words(const char *name);

void as_root(void);
void as_user(pid_t tid, uid_t uid);
void pass_ms(uint64_t ms);
void tune(enum tunable which, const char *value);

/* An int result is a positive errno, 0, or CALL_WAIT; the sentence is in fx.err. */
int pmc_make(const char *name);
int pmc_remove(const char *name);
int pmc_rename(const char *from, const char *to);
struct pmc *pmc_of(const char *name);
int write_file(const char *name, const char *file, const char *text);
int write_open(struct open_file *open, const char *name, const char *file, const char *text);
int write_slot(unsigned cpu, unsigned row, const char *text);
/* Returns the text of a file of the PMC, or with name NULL of the instance ("info/rows", "counts"
 * …); or the name of the errno ("ENODATA"), or "WAIT". Valid during the next seven calls. */
const char *read_file(const char *name, const char *file);
const char *read_open(struct open_file *open, const char *name, const char *file);
/* Returns the value of a key in a text of "name value" or "name=value" lines (status, config), or
 * "none". Valid during the next seven calls. */
const char *value_of(const char *name, const char *file, const char *key);
uint64_t count_of(const char *name);
/* Creates a PMC with this event, attached to targets ("": none). */
void pmc_with(const char *name, const char *event, const char *targets);

/* Initializes an open file of the present user. */
void file_open(struct open_file *open);
void file_close(struct open_file *open);

/*
 * held_start() runs a request until it drops the lock or finishes, held_run() until it takes the
 * lock again, held_step() until it drops the lock the next time or finishes. The last two need a
 * request that has not finished (rc is HELD); held_finish() runs any to its end.
 */
void held_start(struct held *held, int (*operation)(struct held *held));
/* Starts one of the engine's tasks; rc is -ENOENT if none is queued. */
void held_task(struct held *held);
void held_write(struct held *held, const char *name, const char *file, const char *text);
void held_read(struct held *held, const char *name, const char *file);
void held_run(struct held *held);
int held_step(struct held *held); /* returns rc */
int held_finish(struct held *held);
const char *held_text(struct held *held);

void works_run(void);
void retries_run(void); /* runs the tasks, and those that retry a refused attach */
/* Returns the texts of the root and of all its PMCs that a refused operation must not change. Valid
 * during the next call. */
const char *all_texts(void);
bool texts_same(const char *before); /* if false, fx.err.text is the first difference */
/* Returns the journal as text, to be freed: a line "@KIND ID" before the lines of each record. */
char *journal_text(void);
void engine_drop(void);     /* engine_forget(): no engine and no caller remain */
void engine_recreate(void); /* engine_drop(), then a new engine; counters and the host stay */
/* Loads a text of journal_text() into the engine, which must be new. Call as_root() or as_user()
 * before the next request. */
int journal_load(const char *text, size_t len, struct err *err);
/* Runs the tasks and publishes the state, then loads it into a new engine, with the same caller. */
void engine_reload(void);
/* Asserts that the write is refused with this errno and error id, and changes no text. */
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
