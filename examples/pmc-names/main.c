/*
 * A filter that replaces frames by names in lines "comm;frame;frame N". [path+0xoffset] is looked
 * up in the file, [kernel+0xaddress] in /proc/kallsyms, [PID:0xaddress] in perf-PID.map. A frame
 * without a name is not changed. perf.data input is first converted into such lines.
 */
#include "examples/pmc-names/names.h"

#include "core/base/clock.h"
#include "core/base/scan.h"
#include "core/call.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CACHE_SIZE 16384 /* frames with their names; a power of two */
#define STACKS_MAX 131072
#define BYTES_MAX  (256u << 20)

static const char usage[] =
    "usage: pmc-names [PMC] < FOLDED\n"
    "Replaces the addresses of samples.folded by function names. Reads standard input, or the\n"
    "PMC with this directory, which also finds the files of programs in containers. Also reads\n"
    "samples.perf: if samples have a copy of the stack (callchain=dwarf), callers are found\n"
    "without frame pointers.\n"
    "  cat /pmc/p/samples.folded | pmc-names\n"
    "  pmc-names /pmc/p | sort -t ' ' -k 2 -rn\n"
    "  -h, --help  print this text\n"
    "  --version   print the version\n";

/* ---- one frame ---- */

/* Appends a name. ';' separates frames and a blank ends the stack, so both are replaced. */
static void name_add(struct buf *out, const char *name)
{
    char *source = demangled(name);
    const char *text = source ? source : name;

    for (size_t len; *text; text += len + (text[len] == ';')) {
        len = strcspn(text, ";");
        buf_word(out, text, len);
        if (text[len] == ';')
            buf_str(out, "\\073");
    }
    free(source);
}

/* Appends the name of a frame. caller: the address is a return address, which may be after the last
 * instruction of the function. */
static void frame_resolve(struct buf *out, const char *frame, bool caller)
{
    char *text = strdup(frame + 1), *end = NULL, *at;
    const char *name = NULL, *mark = "";
    uint64_t number = 0;

    at = text ? strrchr(text, 'x') : NULL; /* "+0x" or ":0x", then digits up to the "]" */
    if (at && at - text > 2 && at[-1] == '0' && (at[-2] == '+' || at[-2] == ':'))
        number = strtoull(at + 1, &end, 16) - caller;
    if (end && end > at + 1 && strcmp(end, "]") == 0) {
        char kind = at[-2];

        at[-2] = '\0';
        if (kind == '+' && strcmp(text, "kernel") == 0) {
            name = kernel_name(number);
            mark = "_[k]";
        } else if (kind == '+' && *text == '/') {
            text_unescape(text);
            name = file_name(text, number);
        } else if (kind == ':') {
            name = made_name((uint32_t)strtoul(text, NULL, 10), number);
            mark = "_[j]";
        }
    }
    if (name)
        name_add(out, name);
    buf_str(out, name ? mark : frame);
    free(text);
}

static uint64_t text_hash(const char *text)
{
    uint64_t hash = 14695981039346656037u;

    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 1099511628211u;
    return hash ^ hash >> 32;
}

static void frame_add(struct buf *out, const char *frame, bool caller)
{
    static struct {
        char *frame, *name;
    } cache[CACHE_SIZE];
    const size_t slot = (text_hash(frame) + caller) & (CACHE_SIZE - 1);
    const size_t begun = out->len;

    if (frame[0] != '[') {
        buf_str(out, frame);
        return;
    }
    /* the first byte is 'c' for callers */
    if (cache[slot].frame && cache[slot].frame[0] == (caller ? 'c' : '[') &&
        strcmp(cache[slot].frame + 1, frame + 1) == 0) {
        buf_str(out, cache[slot].name);
        return;
    }
    frame_resolve(out, frame, caller);
    free(cache[slot].frame);
    free(cache[slot].name);
    cache[slot].frame = strdup(frame);
    cache[slot].name = strdup(buf_text(out) + begun);
    if (!cache[slot].name || !cache[slot].frame) {
        free(cache[slot].frame);
        cache[slot].frame = NULL;
    } else if (caller) {
        cache[slot].frame[0] = 'c';
    }
}

/* ---- lines ---- */

static bool is_kernel(const char *frame)
{
    return strncmp(frame, "[kernel+", 8) == 0;
}

/* The last frame is the address of the sample. The last user frame before kernel frames is not a
 * return address either. All other frames are callers. */
static void stack_add(struct buf *out, char *stack)
{
    char *frame = strchr(stack, ';'), *next;

    buf_add(out, stack, frame ? (size_t)(frame - stack) : strlen(stack));
    for (frame = frame ? frame + 1 : NULL; frame; frame = next) {
        next = strchr(frame, ';');
        if (next)
            *next++ = '\0';
        buf_char(out, ';');
        frame_add(out, frame, next && (is_kernel(frame) || !is_kernel(next)));
    }
}

/* Sums of stacks; stacks that differed only in their addresses have the same text now. */
static struct {
    struct stack {
        char *text;
        unsigned long long count;
    } stack[STACKS_MAX];
    size_t n, bytes;
} stacks;

static int stack_compare(const void *a, const void *b)
{
    return strcmp(((const struct stack *)a)->text, ((const struct stack *)b)->text);
}

static void stacks_print(void)
{
    struct stack *stack = stacks.stack, *end = stack + stacks.n;

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

static bool line_take(char *line)
{
    char *count = strrchr(line, ' ');
    struct buf out;

    buf_init(&out, NULL, 0);
    if (count)
        *count = '\0';
    stack_add(&out, line);
    if (stacks.n == STACKS_MAX || stacks.bytes > BYTES_MAX)
        stacks_print();
    stacks.bytes += out.len;
    stacks.stack[stacks.n] = (struct stack){out.failed ? NULL : strdup(buf_text(&out)),
                                            count ? strtoull(count + 1, NULL, 10) : 1};
    buf_free(&out);
    return stacks.stack[stacks.n].text && ++stacks.n;
}

/* Reads lines. Control bytes become \ooo, because input of other programs may contain them. */
static bool lines_take(FILE *in)
{
    char *line = NULL;
    size_t size = 0;
    bool done = true;

    while (done && getline(&line, &size, in) > 0) {
        struct buf plain;

        buf_init(&plain, NULL, 0);
        for (const char *at = line; *at && *at != '\n'; at++) {
            if ((unsigned char)*at < ' ' || *at == 0x7f)
                buf_printf(&plain, "\\%03o", (unsigned)*at);
            else
                buf_char(&plain, *at);
        }
        buf_char(&plain, '\0');
        done = !plain.failed && line_take(plain.data);
        buf_free(&plain);
    }
    free(line);
    return done;
}

static bool convert(FILE *in, uint64_t until_ns)
{
    bool done = stream_begins(in) ? stream_convert(in, until_ns, line_take) : lines_take(in);

    stacks_print();
    return done && !ferror(in) && fflush(stdout) == 0 && !ferror(stdout);
}

static bool has_stacks;

static void config_line(char *line)
{
    has_stacks |= strcmp(line, "callchain=dwarf\n") == 0;
}

/* Opens the file of the PMC that has the stacks. */
static FILE *stacks_open(const char *directory)
{
    const char *name;
    FILE *file;

    pmc_lines(directory, "config", config_line);
    name = has_stacks ? "samples.perf" : "samples.folded";
    file = pmc_open(directory, name);
    if (!file)
        fprintf(stderr, "pmc-names: %s/%s: %s\n", text_shown(directory), name, strerror(errno));
    return file;
}

int main(int argc, char **argv)
{
    uint64_t until_ns = UINT64_MAX;
    FILE *in = stdin;

    if (argc == 2 && (strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "--help") == 0)) {
        return fputs(usage, stdout) < 0 || fflush(stdout) != 0;
    }
    if (argc == 2 && strcmp(argv[1], "--version") == 0)
        return puts("pmc-names " PMCFS_VERSION) < 0 || fflush(stdout) != 0;
    if (argc > 2 || (argc == 2 && argv[1][0] == '-')) {
        fputs(usage, stderr);
        return 2;
    }
    if (argc == 2) {
        until_ns = monotonic_ns(); /* of a growing log, convert the present records only */
        in = stacks_open(argv[1]);
        if (!in)
            return 1;
        places_read(argv[1]);
    }
    if (convert(in, until_ns))
        return 0;
    fprintf(stderr, "pmc-names: %s\n", strerror(errno));
    return 1;
}
