/*
 * Three tables of things kept once: paths, parts, stacks; each is a row of numbered things and a
 * hash table of their numbers.
 */
#include "core/stacks.h"

#include <stdlib.h>
#include <string.h>

#define PARTS_MAX  (1u << 17)
#define STACKS_MAX (1u << 16)
#define IDS_MAX    (1u << 21)
#define PATHS_MAX  (1u << 16)

struct stack_slot {
    uint64_t hash;
    uint32_t number; /* +1; 0: free */
};

typedef bool (*same_fn)(const struct stacks *stacks, uint32_t number, const void *key);

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 29;
}

static struct stack_slot *table_free_slot(const struct stack_table *table, uint64_t hash)
{
    size_t i = hash & (table->size - 1);

    while (table->slots[i].number)
        i = (i + 1) & (table->size - 1);
    return &table->slots[i];
}

static bool table_grow(struct stack_table *table)
{
    struct stack_table larger = {.size = table->size ? 2 * table->size : 256, .n = table->n};

    larger.slots = calloc(larger.size, sizeof(*larger.slots));
    if (!larger.slots)
        return false;
    for (size_t i = 0; i < table->size; i++)
        if (table->slots[i].number)
            *table_free_slot(&larger, table->slots[i].hash) = table->slots[i];
    free(table->slots);
    *table = larger;
    return true;
}

static uint32_t table_find(const struct stack_table *table, uint64_t hash,
                           const struct stacks *stacks, same_fn same, const void *key)
{
    for (size_t i = hash; table->size > 0; i++) {
        const struct stack_slot *slot = &table->slots[i & (table->size - 1)];

        if (!slot->number)
            break;
        if (slot->hash == hash && same(stacks, slot->number - 1, key))
            return slot->number - 1;
    }
    return STACKS_NONE;
}

/* Room for one more in a row of things and in its table. */
static bool room_make(struct stacks *stacks, void *row, uint32_t *room, uint32_t n, size_t bytes,
                      struct stack_table *table)
{
    uint32_t more = *room ? *room : 64;
    void *larger;

    if (table && 2 * (table->n + 1) > table->size && !table_grow(table)) {
        stacks->failed = true;
        return false;
    }
    if (n <= *room)
        return true;
    while (n > more)
        more *= 2;
    memcpy(&larger, row, sizeof(larger));
    larger = realloc(larger, more * bytes);
    if (!larger) {
        stacks->failed = true;
        return false;
    }
    memcpy(row, &larger, sizeof(larger));
    *room = more;
    return true;
}

static void table_put(struct stack_table *table, uint64_t hash, uint32_t number)
{
    *table_free_slot(table, hash) = (struct stack_slot){hash, number + 1};
    table->n++;
}

/* ---- paths ---- */

static uint64_t text_hash(const char *text)
{
    uint64_t hash = 1;

    for (const char *p = text; *p; p++)
        hash = mix(hash, (unsigned char)*p);
    return hash;
}

static bool path_same(const struct stacks *stacks, uint32_t number, const void *key)
{
    return strcmp(stacks->paths[number], key) == 0;
}

static uint32_t path_intern(struct stacks *stacks, const char *path)
{
    uint64_t hash = text_hash(path);
    uint32_t number = table_find(&stacks->path_table, hash, stacks, path_same, path);
    char *copy;

    if (number != STACKS_NONE || stacks->n_paths == PATHS_MAX ||
        !room_make(stacks, &stacks->paths, &stacks->room_paths, stacks->n_paths + 1, sizeof(char *),
                   &stacks->path_table))
        return number;
    copy = strdup(path);
    if (!copy) {
        stacks->failed = true;
        return STACKS_NONE;
    }
    stacks->paths[stacks->n_paths] = copy;
    table_put(&stacks->path_table, hash, stacks->n_paths);
    return stacks->n_paths++;
}

/* ---- parts ---- */

static bool part_same(const struct stacks *stacks, uint32_t number, const void *key)
{
    const struct part *a = &stacks->parts[number], *b = key;

    if (a->kind != b->kind)
        return false;
    if (a->kind == PART_COMM)
        return strcmp(a->text, b->text) == 0;
    return a->path == b->path && a->pid == b->pid && a->address == b->address;
}

/* Without memory for its text there is no part; nothing else of `part` is on the heap. */
static uint32_t part_intern(struct stacks *stacks, const struct part *part, uint64_t hash)
{
    uint32_t number = table_find(&stacks->part_table, hash, stacks, part_same, part);
    char *text;

    if (number != STACKS_NONE || stacks->n_parts == PARTS_MAX ||
        !room_make(stacks, &stacks->parts, &stacks->room_parts, stacks->n_parts + 1,
                   sizeof(struct part), &stacks->part_table))
        return number;
    text = part->text ? strdup(part->text) : NULL;
    if (part->text && !text) {
        stacks->failed = true;
        return STACKS_NONE;
    }
    stacks->parts[stacks->n_parts] = *part;
    stacks->parts[stacks->n_parts].text = text;
    table_put(&stacks->part_table, hash, stacks->n_parts);
    return stacks->n_parts++;
}

uint32_t stacks_comm(struct stacks *stacks, const char *name)
{
    struct part part = {.kind = PART_COMM, .text = (char *)(uintptr_t)name};

    return part_intern(stacks, &part, text_hash(name));
}

uint32_t stacks_frame(struct stacks *stacks, enum part_kind kind, const char *path, uint32_t pid,
                      uint64_t address)
{
    struct part part = {.kind = kind, .pid = pid, .address = address};

    if (path) {
        uint32_t number = path_intern(stacks, path);

        if (number == STACKS_NONE)
            return STACKS_NONE;
        part.path = stacks->paths[number];
    }
    return part_intern(stacks, &part, mix(mix(mix(kind, pid), address), (uintptr_t)part.path));
}

/* ---- stacks ---- */

struct stack_key {
    const uint32_t *parts;
    uint32_t n;
};

static bool stack_same(const struct stacks *stacks, uint32_t number, const void *key)
{
    const struct stack *stack = &stacks->stacks[number];
    const struct stack_key *other = key;

    return stack->n == other->n &&
           memcmp(stacks->ids + stack->first, other->parts, other->n * sizeof(*other->parts)) == 0;
}

static bool stack_add(struct stacks *stacks, const uint32_t *parts, uint32_t n, uint64_t hash)
{
    if (stacks->n_stacks == STACKS_MAX || n > IDS_MAX - stacks->n_ids ||
        !room_make(stacks, &stacks->stacks, &stacks->room_stacks, stacks->n_stacks + 1,
                   sizeof(struct stack), &stacks->stack_table) ||
        !room_make(stacks, &stacks->ids, &stacks->room_ids, stacks->n_ids + n, sizeof(uint32_t),
                   NULL))
        return false;
    memcpy(stacks->ids + stacks->n_ids, parts, n * sizeof(*parts));
    stacks->stacks[stacks->n_stacks] = (struct stack){.first = stacks->n_ids, .n = n, .count = 1};
    stacks->n_ids += n;
    table_put(&stacks->stack_table, hash, stacks->n_stacks++);
    return true;
}

void stacks_count(struct stacks *stacks, const uint32_t *parts, uint32_t n)
{
    struct stack_key key = {parts, n};
    uint64_t hash = n;
    uint32_t number;

    for (uint32_t i = 0; i < n; i++) {
        if (parts[i] == STACKS_NONE) {
            stacks->cut++;
            return;
        }
        hash = mix(hash, parts[i]);
    }
    number = table_find(&stacks->stack_table, hash, stacks, stack_same, &key);
    if (number != STACKS_NONE)
        stacks->stacks[number].count++;
    else if (!stack_add(stacks, parts, n, hash))
        stacks->cut++;
}

void stacks_free(struct stacks *stacks)
{
    for (uint32_t i = 0; i < stacks->n_parts; i++)
        free(stacks->parts[i].text);
    for (uint32_t i = 0; i < stacks->n_paths; i++)
        free(stacks->paths[i]);
    free(stacks->parts);
    free(stacks->stacks);
    free(stacks->paths);
    free(stacks->ids);
    free(stacks->part_table.slots);
    free(stacks->stack_table.slots);
    free(stacks->path_table.slots);
    *stacks = (struct stacks){0};
}
