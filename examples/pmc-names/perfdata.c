/*
 * pmc-perfdata: converts the stream of samples.perf to a perf.data file. The stream has attributes,
 * features and formats of tracepoints as records; in a file they are in sections, and its header
 * has their places. All other records are copied.
 */
#include "core/base/buf.h"
#include "core/base/scan.h"
#include "core/base/vec.h"
#include "core/call.h"
#include "core/log/record.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#define MAGIC "PERFILE2"

#define STREAM_ATTR    64u
#define STREAM_TRACING 66u /* followed by bytes that are not records */
#define STREAM_UPDATE  78u
#define STREAM_FEATURE 80u
#define UPDATE_NAME    2u

#define FEATURES 64u /* one word of the four in the header */
enum {
    FEATURE_TRACING = 1,
    FEATURE_HOST = 3,
    FEATURE_KERNEL = 4,
    FEATURE_PROGRAM = 5,
    FEATURE_MACHINE = 6,
    FEATURE_CPUS = 7,
    FEATURE_CPU_ID = 9,
    FEATURE_COMMAND = 11,
    FEATURE_EVENTS = 12
};

#define ATTR_SIZE_MIN 64u
#define NAME_ALIGN    64u /* of texts in features */

struct section {
    uint64_t offset, size;
};

struct file_header {
    char magic[8];
    uint64_t size;
    uint64_t attr_size; /* of an attribute and the section of its ids */
    struct section attrs, data, event_types;
    uint64_t features[4];
};

struct event {
    const char *attr; /* `attr`, `ids` and `name` point into records of converted.kept */
    const uint64_t *ids;
    uint32_t n_ids;
    const char *name; /* "": not known */
};

static struct {
    VEC(struct event) events;
    VEC(char *) kept; /* records that are read again at the end */
    struct buf feature[FEATURES];
    uint32_t attr_size;
    uint64_t data_bytes;
} converted;

static const char usage[] =
    "usage: pmc-perfdata [PMC] > FILE\n"
    "Converts samples.perf of the PMC with this directory, or of standard input, to a perf.data\n"
    "file, for programs that do not read streams. FILE must be a file: no pipe.\n"
    "  pmc-perfdata /pmc/p > perf.data && perf report -i perf.data\n"
    "  -h, --help  print this text\n"
    "  --version   print the version\n";

static bool refuse(const char *sentence)
{
    fprintf(stderr, "pmc-perfdata: %s\n", sentence);
    return false;
}

/* ---- the stream ---- */

static bool attr_take(const char *record, size_t size)
{
    const char *attr = record + sizeof(struct record);
    struct event event = {.attr = attr, .name = ""};
    uint32_t attr_size = 0;

    if (size >= sizeof(struct record) + ATTR_SIZE_MIN)
        memcpy(&attr_size, attr + sizeof(uint32_t), sizeof attr_size);
    if (attr_size < ATTR_SIZE_MIN || attr_size % 8 || sizeof(struct record) + attr_size > size)
        return refuse("an event of the stream cannot be read");
    if (converted.attr_size && converted.attr_size != attr_size)
        return refuse("events of several versions of perf cannot be in one file");
    converted.attr_size = attr_size;
    event.ids = (const uint64_t *)(const void *)(attr + attr_size);
    event.n_ids = (uint32_t)((size - sizeof(struct record) - attr_size) / sizeof(uint64_t));
    return vec_push(&converted.events, event) == 0;
}

/* Gives the name in an EVENT_UPDATE record, as a pointer into it, to the event that has the
 * record's id. Ignores updates of other things. Always returns true. */
static bool update_take(const char *record, size_t size)
{
    const uint64_t *field = (const uint64_t *)(const void *)(record + sizeof(struct record));

    if (size <= sizeof(struct record) + 2 * sizeof *field || (uint32_t)field[0] != UPDATE_NAME)
        return true;
    for (size_t i = 0; i < converted.events.n; i++)
        for (uint32_t id = 0; id < converted.events.items[i].n_ids; id++)
            if (converted.events.items[i].ids[id] == field[1])
                converted.events.items[i].name = (const char *)(field + 2);
    return true;
}

static bool feature_take(const char *record, size_t size)
{
    const size_t head = sizeof(struct record) + sizeof(uint64_t);
    uint64_t number = FEATURES;

    if (size >= head)
        memcpy(&number, record + sizeof(struct record), sizeof number);
    if (number < FEATURES && number != FEATURE_EVENTS && !converted.feature[number].len)
        buf_add(&converted.feature[number], record + head, size - head);
    return true;
}

static bool tracing_take(FILE *in, const char *record, size_t size)
{
    struct buf *out = &converted.feature[FEATURE_TRACING];
    char block[4096];
    uint32_t left = 0;

    if (size >= sizeof(struct record) + sizeof left)
        memcpy(&left, record + sizeof(struct record), sizeof left);
    left = (left + 7) / 8 * 8;
    while (left) {
        const size_t n = fread(block, 1, left < sizeof block ? left : sizeof block, in);

        if (n == 0)
            return refuse("the stream ends in the formats of tracepoints");
        buf_add(out, block, n);
        left -= (uint32_t)n;
    }
    return true;
}

static bool record_take(FILE *in, const char *record, size_t size)
{
    const uint32_t type = ((const struct record *)(const void *)record)->type;
    char *copy;

    if (type == STREAM_FEATURE)
        return feature_take(record, size);
    if (type == STREAM_TRACING)
        return tracing_take(in, record, size);
    if (type != STREAM_ATTR && type != STREAM_UPDATE) {
        converted.data_bytes += size;
        return fwrite(record, 1, size, stdout) == size;
    }
    copy = calloc(1, size + 1); /* a NUL after the name */
    if (!copy || vec_push(&converted.kept, copy))
        return false;
    memcpy(copy, record, size);
    return type == STREAM_ATTR ? attr_take(copy, size) : update_take(copy, size);
}

static bool stream_take(FILE *in)
{
    static uint64_t room[UINT16_MAX / 8 + 1];
    struct record *record = (struct record *)room;
    char magic[sizeof MAGIC - 1];
    uint64_t size = 0;
    size_t n;

    if (fread(magic, 1, sizeof magic, in) != sizeof magic ||
        memcmp(magic, MAGIC, sizeof magic) != 0 || fread(&size, 1, sizeof size, in) != sizeof size)
        return refuse("the input is not a stream of perf.data");
    if (size != 16)
        return refuse("the input is a perf.data file already");
    while ((n = fread(record, 1, sizeof *record, in)) == sizeof *record) {
        const size_t rest = record->size - sizeof *record;

        if (record->size < sizeof *record || fread(record + 1, 1, rest, in) != rest)
            return refuse("the stream ends in the middle of a record");
        if (!record_take(in, (const char *)room, record->size))
            return false;
    }
    return n == 0 || refuse("the stream ends in the middle of a record");
}

/* ---- the sections after the records ---- */

/* Appends the size of a text, and the text, padded. */
static void text_put(struct buf *out, const char *text)
{
    static const char zeroes[NAME_ALIGN];
    const size_t bytes = strlen(text) + 1;
    const uint32_t room = (uint32_t)((bytes + NAME_ALIGN - 1) / NAME_ALIGN * NAME_ALIGN);

    buf_add(out, &room, sizeof room);
    buf_add(out, text, bytes);
    buf_add(out, zeroes, room - bytes);
}

/* Adds features of this host that the stream does not have. perf data convert requires them. */
static void host_describe(void)
{
    const uint32_t cpus[] = {(uint32_t)sysconf(_SC_NPROCESSORS_CONF),
                             (uint32_t)sysconf(_SC_NPROCESSORS_ONLN)};
    static const uint32_t words = 1;
    struct utsname host;
    const struct {
        unsigned feature;
        const char *text;
    } texts[] = {{FEATURE_HOST, host.nodename},
                 {FEATURE_KERNEL, host.release},
                 {FEATURE_PROGRAM, PMCFS_VERSION},
                 {FEATURE_MACHINE, host.machine},
                 {FEATURE_CPU_ID, ""}};

    uname(&host);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (!converted.feature[texts[i].feature].len)
            text_put(&converted.feature[texts[i].feature], texts[i].text);
    if (!converted.feature[FEATURE_CPUS].len)
        buf_add(&converted.feature[FEATURE_CPUS], cpus, sizeof cpus);
    if (converted.feature[FEATURE_COMMAND].len)
        return;
    buf_add(&converted.feature[FEATURE_COMMAND], &words, sizeof words);
    text_put(&converted.feature[FEATURE_COMMAND], "pmc-perfdata");
}

/* Appends the events with their names, which the attributes do not have. */
static void events_describe(struct buf *out)
{
    const uint32_t n = (uint32_t)converted.events.n;

    buf_add(out, &n, sizeof n);
    buf_add(out, &converted.attr_size, sizeof converted.attr_size);
    for (size_t i = 0; i < n; i++) {
        const struct event *event = &converted.events.items[i];

        buf_add(out, event->attr, converted.attr_size);
        buf_add(out, &event->n_ids, sizeof event->n_ids);
        text_put(out, event->name);
        buf_add(out, event->ids, event->n_ids * sizeof *event->ids);
    }
}

/* Appends the table of the features, in order of number, and the features. Sets their bits in the
 * header. */
static void features_add(struct buf *out, struct file_header *header)
{
    uint64_t at = header->data.offset + header->data.size;

    host_describe();
    events_describe(&converted.feature[FEATURE_EVENTS]);
    for (unsigned i = 0; i < FEATURES; i++)
        at += converted.feature[i].len ? sizeof(struct section) : 0;
    for (unsigned i = 0; i < FEATURES; i++) {
        const struct section section = {at, converted.feature[i].len};

        if (!section.size)
            continue;
        header->features[0] |= UINT64_C(1) << i;
        buf_add(out, &section, sizeof section);
        at += section.size;
    }
    for (unsigned i = 0; i < FEATURES; i++)
        if (converted.feature[i].len)
            buf_add(out, converted.feature[i].data, converted.feature[i].len);
}

/* Appends the ids of all events, and then their attributes with the places of the ids. Sets the
 * place of the attributes in the header. */
static void attrs_add(struct buf *out, struct file_header *header)
{
    const uint64_t begin = header->data.offset + header->data.size;
    uint64_t ids;

    while (out->len % 8)
        buf_char(out, '\0');
    ids = begin + out->len;
    for (size_t i = 0; i < converted.events.n; i++)
        buf_add(out, converted.events.items[i].ids, converted.events.items[i].n_ids * sizeof ids);
    header->attr_size = converted.attr_size + sizeof(struct section);
    header->attrs = (struct section){begin + out->len, converted.events.n * header->attr_size};
    for (size_t i = 0; i < converted.events.n; i++) {
        const struct event *event = &converted.events.items[i];
        const struct section section = {ids, event->n_ids * sizeof ids};

        buf_add(out, event->attr, converted.attr_size);
        buf_add(out, &section, sizeof section);
        ids += section.size;
    }
}

static bool convert(FILE *in)
{
    struct file_header header = {.magic = MAGIC, .size = sizeof header};
    struct buf end = {0};
    bool done;

    if (fwrite(&header, sizeof header, 1, stdout) != 1 || !stream_take(in))
        return false;
    header.data = (struct section){sizeof header, converted.data_bytes};
    features_add(&end, &header);
    attrs_add(&end, &header);
    done = !end.failed && fwrite(end.data, 1, end.len, stdout) == end.len &&
           fseeko(stdout, 0, SEEK_SET) == 0 && fwrite(&header, sizeof header, 1, stdout) == 1 &&
           fflush(stdout) == 0;
    buf_free(&end);
    return done;
}

/* Opens the log: reads return its present content, and do not wait for more. */
static FILE *samples_open(const char *directory)
{
    char *path = NULL;
    FILE *in = NULL;
    int fd = -1;

    if (asprintf(&path, "%s/samples.perf", directory) >= 0) {
        fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
        if (fd < 0)
            fprintf(stderr, "pmc-perfdata: %s: %s\n", text_shown(path), strerror(errno));
        free(path);
    }
    if (fd >= 0)
        in = fdopen(fd, "r");
    return in;
}

int main(int argc, char **argv)
{
    FILE *in = stdin;

    if (argc == 2 && (strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "--help") == 0))
        return fputs(usage, stdout) < 0 || fflush(stdout) != 0;
    if (argc == 2 && strcmp(argv[1], "--version") == 0)
        return puts("pmc-perfdata " PMCFS_VERSION) < 0 || fflush(stdout) != 0;
    if (argc > 2 || (argc == 2 && argv[1][0] == '-')) {
        fputs(usage, stderr);
        return 2;
    }
    if (lseek(STDOUT_FILENO, 0, SEEK_CUR) != 0 || ftruncate(STDOUT_FILENO, 0) < 0) {
        refuse("standard output must be a file, from its start: pmc-perfdata PMC > FILE");
        return 1;
    }
    if (argc == 2)
        in = samples_open(argv[1]);
    if (!in)
        return 1;
    errno = 0;
    if (convert(in))
        return 0;
    if (errno && errno != EAGAIN)
        fprintf(stderr, "pmc-perfdata: %s\n", strerror(errno));
    return 1;
}
