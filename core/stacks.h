/*
 * Stacks of samples, each kept once and counted. A stack is a list of parts, root first: the name
 * of the thread, then frames. Memory only, and of that a bounded amount: what is beyond is counted.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STACKS_NONE UINT32_MAX

enum part_kind {
    PART_COMM,
    PART_FILE,  /* code of a file: its path, and the place in it */
    PART_CODE,  /* code without a file: the process, and the address */
    PART_KERNEL /* the address */
};

struct part {
    enum part_kind kind;
    uint32_t pid;
    const char *path; /* FILE */
    uint64_t address; /* FILE: the offset in the file */
    char *text;       /* COMM: the name as it is; frames: for the owner; on the heap */
    uint32_t rank;    /* for the owner */
};

struct stack {
    uint32_t first, n; /* of ids */
    uint64_t count;
};

/* Numbers by what they stand for. */
struct stack_table {
    struct stack_slot *slots;
    size_t size, n;
};

struct stacks {
    struct part *parts;
    struct stack *stacks;
    char **paths;
    uint32_t *ids; /* of parts */
    uint32_t n_parts, n_stacks, n_paths, n_ids;
    uint32_t room_parts, room_stacks, room_paths, room_ids;
    struct stack_table part_table, stack_table, path_table;
    uint64_t cut; /* samples there was no room for */
    bool failed;  /* memory ended */
};

/* All zero is empty. */
void stacks_free(struct stacks *stacks);
/* The number of a part, STACKS_NONE where there is no room for another one. */
uint32_t stacks_comm(struct stacks *stacks, const char *name);
uint32_t stacks_frame(struct stacks *stacks, enum part_kind kind, const char *path, uint32_t pid,
                      uint64_t address);
/* One sample. A part STACKS_NONE: it is counted as cut. */
void stacks_count(struct stacks *stacks, const uint32_t *parts, uint32_t n);
