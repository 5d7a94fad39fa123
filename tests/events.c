/*
 * Names of events, tested with the running kernel and with a fake sysfs: each name resolves to the
 * expected event, and its resolved form to the same code. Wrong names are refused with the right
 * id.
 */
#include "backends/backends.h"
#include "backends/perf/names/names.h"
#include "backends/perf/names/spec.h"
#include "backends/perf/probe/open.h"
#include "backends/perf/probe/probe.h"
#include "core/backend.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static int failures;
static struct backend_state *state;
static bool has_core, has_tracefs, has_msr;

static void check(bool ok, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void check(bool ok, const char *format, ...)
{
    char name[700];
    va_list args;

    va_start(args, format);
    vsnprintf(name, sizeof(name), format, args);
    va_end(args);
    printf("%s %s\n", ok ? "ok" : "not ok", name);
    failures += !ok;
}

enum need {
    ALWAYS,
    CORE,
    NO_CORE,
    TRACEFS,
    MSR
};

static bool have(enum need need)
{
    return need == ALWAYS || (need == CORE && has_core) || (need == NO_CORE && !has_core) ||
           (need == TRACEFS && has_tracefs) || (need == MSR && has_msr);
}

static const struct good {
    enum need need;
    const char *text, *resolved;
    bool counts_both_modes;
    enum event_modifier user, kernel;
} good[] = {
    {ALWAYS, "page-faults", "page-faults", true, MODIFIER_NONE, MODIFIER_NONE},
    {ALWAYS, "Page.Faults", "page-faults", true, MODIFIER_NONE, MODIFIER_NONE},
    {ALWAYS, "faults:u", "page-faults", false, MODIFIER_ON, MODIFIER_OFF},
    {ALWAYS, "page-faults:k", "page-faults", false, MODIFIER_OFF, MODIFIER_ON},
    {ALWAYS, "page-faults:uk", "page-faults", true, MODIFIER_ON, MODIFIER_ON},
    {ALWAYS, "page-faults,usr", "page-faults", false, MODIFIER_ON, MODIFIER_OFF},
    {ALWAYS, "page-faults,usr,os", "page-faults", true, MODIFIER_ON, MODIFIER_ON},
    {ALWAYS, "cs", "context-switches", true, MODIFIER_NONE, MODIFIER_NONE},
    {ALWAYS, "CPU_MIGRATIONS", "cpu-migrations", true, MODIFIER_NONE, MODIFIER_NONE},
    {ALWAYS, "cpu-clock", "cpu-clock", true, MODIFIER_NONE, MODIFIER_NONE},
    {ALWAYS, "perf::PERF_COUNT_SW_PAGE_FAULTS", "page-faults", true, MODIFIER_NONE, MODIFIER_NONE},
    {ALWAYS, "generic/page-faults", "page-faults", true, MODIFIER_NONE, MODIFIER_NONE},
    {ALWAYS, "mem:0x1000:rw", "mem:0x1000/4:rw", false, MODIFIER_NONE, MODIFIER_NONE},
    {ALWAYS, "mem:0x1000/8:w:u", "mem:0x1000/8:w", false, MODIFIER_ON, MODIFIER_OFF},
    {ALWAYS, "mem:4096:u", "mem:0x1000/4:rw", false, MODIFIER_ON, MODIFIER_OFF},
    {ALWAYS, "mem:0x1000:x,usr", "mem:0x1000/8:x", false, MODIFIER_ON, MODIFIER_OFF},
    {TRACEFS, "sched:sched_switch", "sched:sched_switch", true, MODIFIER_NONE, MODIFIER_NONE},
    {TRACEFS, "SCHED:sched-switch", "sched:sched_switch", true, MODIFIER_NONE, MODIFIER_NONE},
    {TRACEFS, "perf::sched:sched_switch", "sched:sched_switch", true, MODIFIER_NONE, MODIFIER_NONE},
    {TRACEFS, "sched:sched_switch:k", "sched:sched_switch", true, MODIFIER_OFF, MODIFIER_ON},
    {MSR, "msr/tsc/", "msr/tsc/", true, MODIFIER_NONE, MODIFIER_NONE},
    {MSR, "tsc", "msr/tsc/", true, MODIFIER_NONE, MODIFIER_NONE},
    {MSR, "msr/event=0/", "msr/event=0x0/", true, MODIFIER_NONE, MODIFIER_NONE},
    {CORE, "cycles", "cycles", false, MODIFIER_NONE, MODIFIER_NONE},
    {CORE, "instructions:u", "instructions", false, MODIFIER_ON, MODIFIER_OFF},
    {CORE, "cpu-cycles:k", "cycles", false, MODIFIER_OFF, MODIFIER_ON},
    {CORE, "unhalted-cycles", "cycles", false, MODIFIER_NONE, MODIFIER_NONE},
    {CORE, "instructions,usr", "instructions", false, MODIFIER_ON, MODIFIER_OFF},
    {CORE, "perf::PERF_COUNT_HW_CPU_CYCLES", "cycles", false, MODIFIER_NONE, MODIFIER_NONE},
    {CORE, "generic/instructions", "instructions", false, MODIFIER_NONE, MODIFIER_NONE},
    {CORE, "generic/instructions/u", "instructions", false, MODIFIER_ON, MODIFIER_OFF},
    {CORE, "PAPI_tot_ins", "instructions", false, MODIFIER_NONE, MODIFIER_NONE},
    {CORE, "papi_TOT_CYC:u", "cycles", false, MODIFIER_ON, MODIFIER_OFF},
    {CORE, "r8", "r8", false, MODIFIER_NONE, MODIFIER_NONE},
    {CORE, "r0011:u", "r11", false, MODIFIER_ON, MODIFIER_OFF},
};

/* Resolves and verifies a name, as a change by the superuser does. */
static int resolve(struct backend_state *from, const char *text, struct event *event,
                   struct err *err)
{
    int rc = perf_backend.resolve(from, text, event, err);

    if (rc == 0)
        rc = perf_backend.verify(from, event, err);
    if (rc < 0)
        event_clear(event);
    return rc;
}

static void resolves(const struct good *row)
{
    struct event event, again;
    struct err err = {.id = ERR_NONE};
    int rc = resolve(state, row->text, &event, &err);
    unsigned n;
    const struct class_info *classes = perf_backend.classes(state, &n);

    check(rc == 0, "%s resolves%s%s", row->text, rc ? ": " : "", rc ? err.text : "");
    if (rc < 0)
        return;
    check(strcmp(event.written, row->text) == 0 && strcmp(event.resolved, row->resolved) == 0,
          "%s is %s, got %s", row->text, row->resolved, event.resolved);
    check(event.counts_both_modes == row->counts_both_modes && event.user == row->user &&
              event.kernel == row->kernel,
          "%s says what it counts", row->text);
    check(event.class_index < n && (event.rows == 0) == (classes[event.class_index].rows == 0) &&
              (event.rows_needed > 0) == (event.rows != 0),
          "%s has rows only where its class has", row->text);
    rc = resolve(state, event.resolved, &again, &err);
    check(rc == 0 && memcmp(event.code, again.code, sizeof(event.code)) == 0 &&
              strcmp(event.resolved, again.resolved) == 0,
          "%s: the resolved form means the same", row->text);
    if (rc == 0)
        event_clear(&again);
    event_clear(&event);
}

static const struct bad {
    enum need need;
    const char *text;
    enum err_id id;
    const char *part;
} bad[] = {
    {ALWAYS, "page-fault", CS01, "page-faults"},
    {ALWAYS, "", CS01, "has no name"},
    {ALWAYS, ",usr", CS01, "has no name"},
    {ALWAYS, ":u", CS01, "has no name"},
    {ALWAYS, "page-faults:usr", CS03, "\"usr\""},
    {ALWAYS, "page-faults:p", P09, "software has none"},
    {ALWAYS, "page-faults,precise", P09, "software has none"},
    {ALWAYS, "page-faults:pppp", CS03, "p, pp, ppp"},
    {ALWAYS, "page-faults,cmask=2", E35, "cmask"},
    {ALWAYS, "page-faults,edge=7", CS04, "edge"},
    {ALWAYS, "context-switches:u", CS03, "always read 0"},
    {ALWAYS, "migrations:u", CS03, "cpu-migrations"},
    {ALWAYS, "task-clock:u", CS03, "task-clock"},
    {ALWAYS, "mem:", CS03, "':'"},
    {ALWAYS, "mem:xyz", CS01, "xyz"},
    {ALWAYS, "generic/instuctions", CS01, "instructions"},
#if defined(__x86_64__)
    {ALWAYS, "alignment-faults", P09, "never raises it"},
    {ALWAYS, "perf::PERF_COUNT_SW_EMULATION_FAULTS:u", P09, "always read 0"},
#endif
    {ALWAYS, "r12345678901234567", CS04, "16 digits"},
    {TRACEFS, "sched:sched_switch:u", CS03, "always read 0"},
    {MSR, "tsc,cmask=1", E35, "cmask"},
    {NO_CORE, "L1-dcache-load-misses", P09, "hardware"},
    {NO_CORE, "cpu/event=0xc0,umask=0x1/", P09, "cannot be counted here"},
    {NO_CORE, "generic/instructions", P09, "instructions"},
    {NO_CORE, "cycles,os,cmask=2,inv,edge", P09, "cycles"},
};

static void refused(const struct bad *row)
{
    struct event event;
    struct err err = {.id = ERR_NONE};
    int rc = resolve(state, row->text, &event, &err);
    bool ok = rc == -err_table[row->id].code && err.id == row->id && strstr(err.text, row->part);

    check(ok, "\"%s\" is refused: %s %s", row->text, rc == 0 ? "resolved" : err_table[err.id].id,
          rc == 0 ? "" : err.text);
    if (rc == 0)
        event_clear(&event);
}

/* A fake sysfs with PMUs that this host does not have. */
static const struct {
    const char *path, *text;
} fixture[] = {
    {"cpu/type", "4\n"},
    {"cpu/format/event", "config:0-7,32-35\n"},
    {"cpu/format/umask", "config:8-15\n"},
    {"cpu/format/edge", "config:18\n"},
    {"cpu/format/inv", "config:23\n"},
    {"cpu/format/cmask", "config:24-31\n"},
    {"cpu/format/any", "config:21\n"},
    {"cpu/format/offcore_rsp", "config1:0-63\n"},
    {"cpu/format/ldlat", "config1:0-15\n"},
    {"cpu/format/frontend", "config2:0-23\n"},
    {"cpu/events/instructions", "event=0xc0\n"},
    {"cpu/events/mem-loads", "event=0xcd,umask=0x1,ldlat=3\n"},
    {"power/type", "12\n"},
    {"power/cpumask", "0\n"},
    {"power/format/event", "config:0-7\n"},
    {"power/events/energy-pkg", "event=0x02\n"},
    {"power/events/energy-pkg.unit", "Joules\n"},
    {"power/events/energy-pkg.scale", "2.5e-1\n"},
    {"software/type", "1\n"},
    {"uncore_imc/type", "17\n"},
    {"uncore_imc/cpumask", "0,18\n"},
    {"uncore_imc/format/core", "config:16-23\n"},
    {"uncore_imc/events/reads", "core=?\n"},
    {"intel_pt/type", "9\n"},
};

static void make_fixture(const char *root)
{
    char path[600];

    for (size_t i = 0; i < sizeof(fixture) / sizeof(fixture[0]); i++) {
        snprintf(path, sizeof(path), "%s/sys/bus/event_source/devices/%s", root, fixture[i].path);
        for (char *p = path + 1; *p; p++)
            if (*p == '/') {
                *p = '\0';
                mkdir(path, 0755);
                *p = '/';
            }
        FILE *file = fopen(path, "we");
        if (file) {
            fputs(fixture[i].text, file);
            fclose(file);
        }
    }
}

static const struct {
    const char *text;
    enum err_id id; /* ERR_NONE: it resolves */
    const char *resolved_or_part;
    uint64_t config[3];
} terms[] = {
    {"cpu/event=0x1c0,umask=0x1,cmask=1,inv,edge/u",
     ERR_NONE,
     "cpu/event=0x1c0,umask=0x1,cmask=0x1,inv=0x1,edge=0x1/",
     {0x1018401c0, 0, 0}},
    {"cpu/mem-loads/", ERR_NONE, "cpu/mem-loads/", {0x1cd, 3, 0}},
    {"cpu/mem-loads,ldlat=30/k", ERR_NONE, "cpu/mem-loads,ldlat=0x1e/", {0x1cd, 30, 0}},
    {"cpu/config=0xff,frontend=5/", ERR_NONE, "cpu/config=0xff,frontend=0x5/", {0xff, 0, 5}},
    {"instructions,cmask=2,inv,edge",
     ERR_NONE,
     "instructions,cmask=0x2,inv=1,edge=1",
     {0x28400c0, 0, 0}},
    {"r01c2,umask=4", ERR_NONE, "r1c2,umask=0x4", {0x4c2, 0, 0}},
    {"r01c2,mask=4", ERR_NONE, "r1c2,umask=0x4", {0x4c2, 0, 0}},
    {"r01c2,unitmask=0x1f", ERR_NONE, "r1c2,umask=0x1f", {0x1fc2, 0, 0}},
    {"instructions,count=2,inv", ERR_NONE, "instructions,cmask=0x2,inv=1", {0x28000c0, 0, 0}},
    {"instructions,threshold=2", ERR_NONE, "instructions,cmask=0x2", {0x20000c0, 0, 0}},
    {"instructions,any", ERR_NONE, "instructions,any=1", {0x2000c0, 0, 0}},
    {"instructions,anythread,usr", ERR_NONE, "instructions,any=1", {0x2000c0, 0, 0}},
    {"r1b7,rsp=0x10003", ERR_NONE, "r1b7,rsp=0x10003", {0x1b7, 0x10003, 0}},
    {"instructions,count=256", CS04, "8 bits", {0}},
    {"instructions,count", CS04, "takes a number", {0}},
    {"instructions,any=2", CS04, "takes no value", {0}},
    {"mem-loads:u", ERR_NONE, "cpu/mem-loads/", {0x1cd, 3, 0}},
    {"power/energy-pkg/", ERR_NONE, "power/energy-pkg/", {2, 0, 0}},
    {"cpu/event=0x1,umask=0x100/", CS04, "umask has 8 bits", {0}},
    {"cpu/event=0x1,umaks=0x1/", CS03, "umask", {0}},
    {"cpu/instuctions/", CS01, "instructions", {0}},
    {"cpu/event=1,,umask=2/", CS03, "a comma too many", {0}},
    {"cycles,cmask=2", E35, "only the kernel", {0}},
    {"instructions,cmask=256", CS04, "8 bits", {0}},
    {"power/energy-pkg/u", CS03, "user or kernel mode alone", {0}},
    {"power/energy-pkg/,usr", CS03, "user or kernel mode alone", {0}},
    {"uncore_imc/reads/", CS03, "needs a value: write uncore_imc/core=?/", {0}},
    {"intel_pt//", P09, "trace", {0}},
    {"nosystem:noevent", P09, "tracefs", {0}},
};

/* Returns a backend for the fake sysfs at `root`, as if the processor had counters. */
static struct backend_state as_if(const char *root)
{
    struct backend_state made = {.pmus = pmus_new(root)};
    struct pmu *cpu = pmus_find(made.pmus, word_of("cpu"));

    cpu->why[0] = made.pmus->why_no_core[0] = '\0';
    cpu->max_precise = 2;
    return made;
}

/* Resolves a name without opening the event, and checks the result: the resolved form, or the error
 * id and a part of the sentence. Returns whether the name resolved; the caller clears *event. */
static bool understands(struct backend_state *made, const char *text, enum err_id id,
                        const char *resolved_or_part, struct event *event)
{
    struct err err = {.id = ERR_NONE};
    int rc = perf_backend.resolve(made, text, event, &err);
    bool ok = id == ERR_NONE ? rc == 0 && strcmp(event->resolved, resolved_or_part) == 0
                             : rc < 0 && err.id == id && strstr(err.text, resolved_or_part);

    check(ok, "%s: %s", text, rc < 0 ? err.text : event->resolved);
    return rc == 0;
}

static void has_code(const char *text, const struct event *event, const uint64_t *config, size_t n)
{
    check(memcmp(&event->code[CODE_CONFIG], config, n * sizeof(*config)) == 0,
          "%s has its code (0x%llx, 0x%llx)", text, (unsigned long long)event->code[CODE_CONFIG],
          (unsigned long long)event->code[CODE_CONFIG1]);
}

static void q06_q07_q08_q14_q16_q18_q20_understands_terms(const char *root)
{
    struct backend_state made = as_if(root);

    for (size_t i = 0; i < sizeof(terms) / sizeof(terms[0]); i++) {
        struct event event;
        if (understands(&made, terms[i].text, terms[i].id, terms[i].resolved_or_part, &event))
            has_code(terms[i].text, &event, terms[i].config, 3);
        if (event.written && strncmp(terms[i].text, "power", 5) == 0)
            check(strcmp(event.unit, "Joules") == 0 && event.scale == 0.25,
                  "unit and scale are sysfs's");
        event_clear(&event);
    }
    pmus_free(made.pmus);
}

/* Names of the table of Skylake, used as if it were this processor's. */
static const struct {
    const char *text;
    enum err_id id;
    const char *resolved_or_part;
    uint64_t config;
    enum event_modifier user;
} names[] = {
    {"INST_RETIRED:ANY_P:u", ERR_NONE, "skl::INST_RETIRED:ANY_P", 0xc0, MODIFIER_ON},
    {"inst-retired.any.p", ERR_NONE, "skl::INST_RETIRED:ANY_P", 0xc0, MODIFIER_NONE},
    {"skl::inst_retired:any_p:uk", ERR_NONE, "skl::INST_RETIRED:ANY_P", 0xc0, MODIFIER_ON},
    {"L2_RQSTS:MISS:c=2:i", ERR_NONE, "skl::L2_RQSTS:MISS:c=2:i", 0x2803f24, MODIFIER_NONE},
    {"L2_RQSTS:MISS,cmask=2,inv,usr", ERR_NONE, "skl::L2_RQSTS:MISS,cmask=0x2,inv=1", 0x2803f24,
     MODIFIER_ON},
    {"L2_RQSTS,umask=miss", ERR_NONE, "skl::L2_RQSTS:MISS", 0x3f24, MODIFIER_NONE},
    {"L2_RQSTS:MIS", CS03, "MISS", 0, MODIFIER_NONE},
    {"L2_RQSTS:MISS:c=two", CS04, "two", 0, MODIFIER_NONE},
    {"L2_RQSTS:MISS:c=300", CS04, "out of range", 0, MODIFIER_NONE},
    {"L2_RQSTS:MISS=1", CS04, "no value", 0, MODIFIER_NONE},
    {"L2_RQSTS:MISS:period=1000", CS03, "period=N", 0, MODIFIER_NONE},
    {"L2_RQSTS:MISS:h", CS03, "hypervisor", 0, MODIFIER_NONE},
    {"INST_RETIRED:ANY_P:precise=1:u", ERR_NONE, "skl::INST_RETIRED:ANY_P,precise=1", 0xc0,
     MODIFIER_ON},
    {"INST_RETIRED:ANY_P:upp", ERR_NONE, "skl::INST_RETIRED:ANY_P,precise=2", 0xc0, MODIFIER_ON},
    {"INST_RETIRED:ANY_P:P", ERR_NONE, "skl::INST_RETIRED:ANY_P,precise=2", 0xc0, MODIFIER_NONE},
    {"L2_RQSTS:MISS,cmask=2,precise", ERR_NONE, "skl::L2_RQSTS:MISS,cmask=0x2,precise=1", 0x2003f24,
     MODIFIER_NONE},
    {"INST_RETIRED:ANY_P:ppp", P09, "levels up to 2", 0, MODIFIER_NONE},
    {"INST_RETIRED:ANY_P:precise=3", P09, "levels up to 2", 0, MODIFIER_NONE},
    {"L2_RQSTS:MISS::u", CS03, "':'", 0, MODIFIER_NONE},
    {"hsw::INST_RETIRED", CS01, "other processors", 0, MODIFIER_NONE},
};

/* The lines of events/CLASS/EVENT from the table of libpfm4. */
static void cf08_lists_unit_masks_and_attributes(void)
{
    struct buf about = {0}, lines = {0};

    pfm_describe("skl::L2_RQSTS", &about, &lines);
    check(strstr(buf_text(&lines), "umask MISS ") && strstr(buf_text(&lines), "\numask PF_HIT "),
          "the unit masks of skl::L2_RQSTS are listed");
    check(strstr(buf_text(&lines), "\nattr c integer ") &&
              strstr(buf_text(&lines), "\nattr e boolean "),
          "and its attributes");
    buf_free(&about);
    buf_free(&lines);
}

/* Runs in a separate process, because libpfm4 reads its environment once. */
__attribute__((unused)) static void q07_understands_names(const char *root)
{
    struct backend_state made = as_if(root);

    setenv("LIBPFM_FORCE_PMU", "skl", 1);
    pfm_prepare();
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct event event;
        if (understands(&made, names[i].text, names[i].id, names[i].resolved_or_part, &event)) {
            event.code[CODE_CONFIG] &= ~(uint64_t)0x530000;
            has_code(names[i].text, &event, &names[i].config, 1);
            check(event.user == names[i].user, "%s says what it counts", names[i].text);
        }
        event_clear(&event);
    }
    cf08_lists_unit_masks_and_attributes();
    pmus_free(made.pmus);
}

/* hwpmc's qualifiers and their values in the tables of other processors. */
static const struct other {
    const char *table, *text, *resolved;
    uint64_t config[2];
} others[] = {
    {"amd64_fam10h_barcelona",
     "DISPATCHED_FPU,mask=ops_add+ops_multiply",
     "amd64_fam10h_barcelona::DISPATCHED_FPU:OPS_ADD:OPS_MULTIPLY",
     {0x300, 0}},
    {"amd64_fam10h_barcelona",
     "DISPATCHED_FPU:OPS_ADD,count=2,inv",
     "amd64_fam10h_barcelona::DISPATCHED_FPU:OPS_ADD,cmask=0x2,inv=1",
     {0x2800100, 0}},
    {"amd64_k7",
     "DATA_CACHE_REFILLS_FROM_SYSTEM,unitmask=modified+owned",
     "amd64_k7::DATA_CACHE_REFILLS_FROM_SYSTEM:MODIFIED:OWNED",
     {0x1843, 0}},
    {"core", "L2_LINES_IN,umask=self+prefetch", "core::L2_LINES_IN:SELF:PREFETCH", {0x5024, 0}},
    {"core",
     "L2_LD,umask=both_cores+any+m_state",
     "core::L2_LD:BOTH_CORES:ANY:M_STATE",
     {0xf829, 0}},
    {"core", "BUS_HITM_DRV,umask=all_agents", "core::BUS_HITM_DRV:ALL_AGENTS", {0x207b, 0}},
    {"core", "EXT_SNOOP,umask=all_agents+hitm", "core::EXT_SNOOP:ALL_AGENTS:HITM", {0x2877, 0}},
    {"core", "CMP_SNOOP,umask=both_cores+share", "core::CMP_SNOOP:BOTH_CORES:SHARE", {0xc178, 0}},
    {"nhm",
     "OFFCORE_RESPONSE_0,rsp=dmnd_data_rd+local_dram",
     "nhm::OFFCORE_RESPONSE_0:DMND_DATA_RD:LOCAL_DRAM",
     {0x1b7, 0x4001}},
    {"netburst",
     "EXECUTION_EVENT:cmpl:thr=3,mask=nbogus0+nbogus1",
     "netburst::execution_event:cmpl:thr=3:NBOGUS0:NBOGUS1",
     {0x48000605003fb000, 0}},
};

static const char *table;

static void in_other_tables(const char *root)
{
    struct backend_state made = as_if(root);

    setenv("LIBPFM_FORCE_PMU", table, 1);
    pfm_prepare();
    for (const struct other *row = others; row < others + sizeof(others) / sizeof(others[0]);
         row++) {
        struct event event = {.written = NULL};
        if (strcmp(row->table, table) == 0 &&
            understands(&made, row->text, ERR_NONE, row->resolved, &event))
            has_code(row->text, &event, row->config, 2);
        event_clear(&event);
    }
    pmus_free(made.pmus);
}

/* Runs a function in a separate process with the directory of a new fake sysfs; `what` is the name
 * of the check that it passes. */
static void apart(void (*run)(const char *root), const char *what)
{
    char root[] = "/tmp/pmcfs-events-XXXXXX", command[100];
    int status = 1;

    if (!mkdtemp(root))
        return;
    make_fixture(root);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        run(root);
        fflush(stdout);
        _exit(failures > 0);
    }
    check(child > 0 && waitpid(child, &status, 0) == child && status == 0, "%s", what);
    snprintf(command, sizeof(command), "rm -r %s", root);
    check(system(command) == 0, "the fake sysfs is removed");
}

__attribute__((unused)) static void q06_to_q18_understands_other_tables(void)
{
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        if (table && strcmp(table, others[i].table) == 0)
            continue;
        table = others[i].table;
        apart(in_other_tables, "qualifiers as in the tables of other processors");
    }
}

static void classes_make_sense(void)
{
    unsigned n;
    const struct class_info *classes = perf_backend.classes(state, &n);
    bool software = false;

    for (unsigned i = 0; i < n; i++) {
        software |= strcmp(classes[i].name, "software") == 0 && classes[i].rows == 0;
        printf("# class %s: %u rows of %u bits\n", classes[i].name, classes[i].rows,
               classes[i].width);
        check(classes[i].capabilities & CAP_READ, "class %s can be read", classes[i].name);
    }
    check(software, "there is a class software without rows");
}

static void has_facts(void)
{
    struct buf text = {0};

    perf_backend.print_facts(state, &text);
    check(strstr(buf_text(&text), "hardware_pmu ") &&
              strstr(buf_text(&text), "perf_event_paranoid ") &&
              strstr(buf_text(&text), "tracefs ") && strstr(buf_text(&text), "libpfm4 "),
          "the facts are printed:\n# %s", buf_text(&text));
    has_tracefs = !strstr(buf_text(&text), "tracefs no");
    buf_clear(&text);
    perf_backend.print_cpuref(state, &text);
    check(text.len > 0, "the documents are named");
    buf_free(&text);
}

/* The only function of the host that is called here. */
static void one_cpu(struct host_state *unused, struct cpus *out)
{
    (void)unused;
    cpus_add(out, 0);
}

static const struct host one_cpu_host = {.cpus_possible = one_cpu, .cpus_online = one_cpu};

int main(void)
{
    struct err err = {.id = ERR_NONE};
    struct event event;

    apart(q06_q07_q08_q14_q16_q18_q20_understands_terms,
          "terms of a machine's own files are understood");
#if defined(__x86_64__)
    apart(q07_understands_names, "names of another processor's table are understood");
    q06_to_q18_understands_other_tables();
#endif
    int rc = perf_backend.open(NULL, &one_cpu_host, NULL, NULL, NULL, &state, &err);

    check(rc == 0, "the backend opens");
    if (rc < 0)
        return 1;
    if (resolve(state, "page-faults", &event, &err) < 0) {
        printf("# skipped, it needs root: %s\n", err.text);
        return 77;
    }
    event_clear(&event);
    has_core = pmus_first_core(state->pmus) != NULL;
    has_msr = pmus_first_of(state->pmus, PMU_MSR) != NULL;
    has_facts();
    classes_make_sense();
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        if (have(good[i].need))
            resolves(&good[i]);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (have(bad[i].need))
            refused(&bad[i]);
    perf_backend.close(state);
    return failures > 0;
}
