/*
 * Arbitrary bytes as records of perf.data, after the records of one process that has the code of
 * this program at CODE. Samples have a call chain, registers and a copy of the stack.
 */
#include "core/log/record.h"
#include "examples/pmc-names/names.h"

#include "tests/fuzz/fuzz.h"

#include <string.h>

#define CODE       UINT64_C(0x10000000)
#define CODE_BYTES (UINT64_C(1) << 26)
#define PID        7

static bool give(const struct stack *stack)
{
    FUZZ_CHECK(strchr(stack->line, ';') && stack->samples == 1);
    return true;
}

/* Writes a record; bytes must be a multiple of 8. */
static void put(FILE *to, uint32_t type, const void *body, size_t bytes)
{
    const struct record head = {.type = type, .size = (uint16_t)(sizeof head + bytes)};

    fwrite(&head, sizeof head, 1, to);
    fwrite(body, bytes, 1, to);
}

/* Writes the header and the mapping of the code. Samples are announced with IP, TID, CALLCHAIN,
 * STACK_USER and REGS_USER: all registers of x86-64 except ds, es, fs and gs. */
static void put_begin(FILE *to)
{
    static const uint64_t head[] = {16},
                          attr[16] = {1 | UINT64_C(128) << 32, 0, 0, 0x3023, [10] = 0xff0fff},
                          map[] = {PID | (uint64_t)PID << 32, CODE, CODE_BYTES, 0, 0, 0, 0, 0};
    static char path[16] = "/proc/self/exe";
    char whole[sizeof map + sizeof path];

    memcpy(whole, map, sizeof map);
    memcpy(whole + sizeof map, path, sizeof path);
    fwrite(STREAM_MAGIC, strlen(STREAM_MAGIC), 1, to);
    fwrite(head, sizeof head, 1, to);
    put(to, 64, attr, sizeof attr);
    put(to, RECORD_MAP, whole, sizeof whole);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char bytes[8192];
    FILE *to = fmemopen(bytes, sizeof bytes, "w"), *in;
    long end;

    put_begin(to);
    fwrite(data, size, 1, to);
    end = ftell(to);
    fclose(to);
    in = fmemopen(bytes, (size_t)end, "r");
    FUZZ_CHECK(stream_begins(in));
    child_here = true;
    stream_convert(in, UINT64_MAX, give, &(struct stream_facts){.lost = 0});
    fclose(in);
    return 0;
}
