/*
 * The kernel's side of the FUSE descriptor on a socket, where the complete program serves requests
 * with the simulated PMU.
 */
#pragma once

#include <linux/fuse.h>
#include <stddef.h>
#include <stdint.h>

struct file {
    uint64_t node, fh;
};

struct kernel {
    uint64_t node[16]; /* the root, and the last 15 node ids received */
    struct file file[8];
    unsigned n_nodes, n_files;
};
extern struct kernel kernel;

/* Starts the program. It stops with this process and must have freed all memory by then. */
void kernel_begin(void);
/*
 * Sends a request as root (user 0) or uid 1000 (1). Returns 0 with the answer in kernel_answer, a
 * negative errno, or -EINPROGRESS if the request waits. Node ids and open files of the answer are
 * stored.
 */
int kernel_ask(uint32_t opcode, uint64_t node, unsigned user, const void *body, size_t bytes);
extern char kernel_answer[];
void kernel_close(unsigned file);
/* Interrupts all waiting requests, closes files, and removes PMCs and instances. */
void kernel_end_all(void);
