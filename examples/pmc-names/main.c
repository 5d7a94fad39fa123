/*
 * A filter: reads lines "comm;frame;frame N" or perf.data, and prints them with names of functions,
 * or as a profile for pprof. Also prints how many samples are missing.
 */
#include "examples/pmc-names/names.h"

#include "core/base/clock.h"
#include "core/base/scan.h"
#include "core/call.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STACKS_MAX 131072
#define BYTES_MAX  (256u << 20)

static const char usage[] =
    "usage: pmc-names [-o folded | pprof] [PMC [STREAM]]\n"
    "Replaces the addresses of samples.folded by function names. Reads standard input, or the\n"
    "PMC with this directory, which also finds the files of programs in containers. Also reads\n"
    "samples.perf: if samples have a copy of the stack (callchain=dwarf), callers are found\n"
    "without frame pointers. The numbers of shown, lost and hidden samples go to standard error.\n"
    "  STREAM      a copy of samples.perf of this PMC, instead of the samples that are in its log\n"
    "  -o folded   print lines \"comm;function;function N\" (the default)\n"
    "  -o pprof    print a profile for pprof, compressed by gzip\n"
    "  -h, --help  print this text\n"
    "  --version   print the version\n"
    "Examples:\n"
    "  pmc-names /pmc/p | awk '{ print $NF, $0 }' | sort -rn | head\n"
    "  pmc-names -o pprof /pmc/p > p.pb.gz && go tool pprof -top p.pb.gz\n";

static bool as_profile;

/* ---- lines ---- */

/* Returns true for the idle task of a CPU: it has no name, and its stack starts in a kernel
 * function that never returns. frames: names, each after a ';'. */
static bool is_idle(const char *comm, size_t len, const char *frames)
{
    return ((len == 9 && strncmp(comm, "[unknown]", len) == 0) ||
            (len == 2 && strncmp(comm, ":0", len) == 0)) &&
           (strstr(frames, ";cpu_startup_entry_[k]") || strstr(frames, ";do_idle_[k]"));
}

static void stack_add(struct buf *out, const char *line)
{
    const size_t comm = strcspn(line, ";");
    char *frames = strdup(line + comm), *frame, *next;
    struct buf names = {0};

    for (frame = frames && *frames ? frames + 1 : NULL; frame; frame = next) {
        next = strchr(frame, ';');
        if (next)
            *next++ = '\0';
        buf_char(&names, ';');
        frame_add(&names, frame, frame_is_caller(frame, next));
    }
    if (is_idle(line, comm, buf_text(&names)))
        buf_str(out, "idle");
    else
        escaped_add(out, line, comm);
    buf_str(out, buf_text(&names));
    out->failed |= !frames || names.failed;
    buf_free(&names);
    free(frames);
}

/* Stacks not yet printed. stacks_print() adds the counts of stacks with the same text: they
 * differed only in their addresses. */
static struct {
    struct counted {
        char *text;
        unsigned long long count;
    } stack[STACKS_MAX];
    size_t n, bytes;
} stacks;

static unsigned long long samples_shown;

static int stack_compare(const void *a, const void *b)
{
    return strcmp(((const struct counted *)a)->text, ((const struct counted *)b)->text);
}

static void stacks_print(void)
{
    struct counted *stack = stacks.stack, *end = stack + stacks.n;

    qsort(stack, stacks.n, sizeof *stack, stack_compare);
    for (; stack < end; stack++) {
        if (stack + 1 < end && stack_compare(stack, stack + 1) == 0)
            stack[1].count += stack->count;
        else
            printf("%s %llu\n", stack->text, stack->count);
        free(stack->text);
    }
    stacks.n = stacks.bytes = 0;
}

static bool folded_take(const struct stack *stack)
{
    struct buf out = {0};

    stack_add(&out, stack->line);
    if (stacks.n == STACKS_MAX || stacks.bytes > BYTES_MAX)
        stacks_print();
    stacks.bytes += out.len;
    stacks.stack[stacks.n] =
        (struct counted){out.failed ? NULL : strdup(buf_text(&out)), stack->samples};
    buf_free(&out);
    return stacks.stack[stacks.n].text && ++stacks.n;
}

static bool stack_take(const struct stack *stack)
{
    samples_shown += stack->samples;
    return as_profile ? profile_take(stack) : folded_take(stack);
}

/* Passes each line "comm;frame;frame N" to stack_take(). Control bytes become \ooo: the tree
 * escapes them, other writers of such lines may not. */
static bool lines_take(FILE *in)
{
    char *line = NULL, *count;
    size_t size = 0;
    bool done = true;

    while (done && getline(&line, &size, in) > 0) {
        struct buf plain = {0};

        for (const char *at = line; *at && *at != '\n'; at++) {
            if ((unsigned char)*at < ' ' || *at == 0x7f)
                buf_printf(&plain, "\\%03o", (unsigned)*at);
            else
                buf_char(&plain, *at);
        }
        buf_char(&plain, '\0');
        count = plain.failed ? NULL : strrchr(plain.data, ' ');
        if (count)
            *count++ = '\0';
        done = !plain.failed &&
               stack_take(&(struct stack){.line = plain.data,
                                          .samples = count ? strtoull(count, NULL, 10) : 1});
        buf_free(&plain);
    }
    free(line);
    return done;
}

/* ---- losses ---- */

static struct buf events; /* the PMC's events, restricted to user mode: "cycles:u,instructions:u" */

static void event_line(char *line)
{
    const size_t len = strcspn(line, "\n");

    if (strncmp(line, "metric/", strlen("metric/")) == 0)
        return;
    line[len] = '\0';
    buf_str(&events, events.len ? "," : "");
    buf_str(&events, text_shown(line));
    buf_str(&events, len && line[len - 1] == '/' ? "u" : ":u");
}

/* Appends "N samples, N lost, N hidden", and why samples are hidden. in_stream: sum of the lost and
 * hidden samples of a stream; 0: use the numbers in the log of the PMC. */
static void losses_add(struct buf *out, uint64_t in_stream)
{
    uint64_t lost = losses.lost;

    if (in_stream)
        lost = in_stream > losses.hidden ? in_stream - losses.hidden : 0;
    buf_printf(out, "%llu samples, %" PRIu64 " lost, %" PRIu64 " hidden", samples_shown, lost,
               losses.hidden);
    if (losses.throttled)
        buf_printf(out, ", %" PRIu64 " times throttled", losses.throttled);
    if (losses.hidden)
        buf_printf(out,
                   ": only the superuser may see samples of the kernel, so these are samples of %s",
                   buf_text(&events));
}

static bool has_stacks;

static void config_line(char *line)
{
    has_stacks |= strcmp(line, "callchain=dwarf\n") == 0;
}

/* Opens the file of the PMC that has the stacks, or a copy of its stream. */
static FILE *stacks_open(const char *directory, const char *copy)
{
    const char *name;
    FILE *file;

    if (copy) {
        file = fopen(copy, "re");
        if (!file)
            fprintf(stderr, "pmc-names: %s: %s\n", text_shown(copy), strerror(errno));
        return file;
    }
    pmc_lines(directory, "config", config_line);
    name = has_stacks || as_profile ? "samples.perf" : "samples.folded";
    file = pmc_open(directory, name);
    if (!file)
        fprintf(stderr, "pmc-names: %s/%s: %s\n", text_shown(directory), name, strerror(errno));
    return file;
}

static bool convert(FILE *in, uint64_t until_ns, const char *directory)
{
    struct stream_facts facts = {.lost = 0};
    const bool is_stream = stream_begins(in);
    struct buf text = {0};
    bool done = is_stream ? stream_convert(in, until_ns, stack_take, &facts) : lines_take(in);

    done = done && !ferror(in);
    losses_add(&text, facts.lost);
    if (done && as_profile)
        done = profile_print(&facts, buf_text(&text));
    stacks_print();
    done = done && fflush(stdout) == 0 && !ferror(stdout);
    if (done && (directory || is_stream) &&
        (samples_shown || facts.lost || losses.lost || losses.hidden))
        fprintf(stderr, "pmc-names: %s\n", buf_text(&text));
    buf_free(&text);
    return done;
}

int main(int argc, char **argv)
{
    uint64_t until_ns = UINT64_MAX;
    const char *wrong = NULL;
    FILE *in = stdin;
    int option;

    if (argc == 2 && (strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "--help") == 0))
        return fputs(usage, stdout) < 0 || fflush(stdout) != 0;
    if (argc == 2 && strcmp(argv[1], "--version") == 0)
        return puts("pmc-names " PMCFS_VERSION) < 0 || fflush(stdout) != 0;
    opterr = 0;
    while ((option = getopt(argc, argv, "+o:")) != -1) {
        as_profile = option == 'o' && strcmp(optarg, "pprof") == 0;
        if (option != 'o')
            wrong = "the only option is -o, with folded or pprof";
        else if (!as_profile && strcmp(optarg, "folded") != 0)
            wrong = "-o: give folded or pprof";
    }
    argc -= optind;
    argv += optind;
    if (!wrong && argc > 2)
        wrong = "give only one PMC, and one copy of its samples.perf";
    if (wrong) {
        fprintf(stderr, "pmc-names: %s\n%s", wrong, usage);
        return 2;
    }
    if (argc > 0) {
        if (argc == 1)
            until_ns = monotonic_ns(); /* not more than the present content of a growing log */
        in = stacks_open(argv[0], argv[1]);
        if (!in)
            return 1;
        places_read(argv[0]);
        pmc_lines(argv[0], "event", event_line);
    }
    if (convert(in, until_ns, argc > 0 ? argv[0] : NULL))
        return 0;
    fprintf(stderr, "pmc-names: %s\n", strerror(errno));
    return 1;
}
