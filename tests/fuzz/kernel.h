/*
 * The kernel's side of the FUSE descriptor, played on a socket: the whole program serves there, on
 * the simulated machine.
 */
#pragma once

#include <linux/fuse.h>
#include <stddef.h>
#include <stdint.h>

struct file {
    uint64_t node, fh;
};

struct kernel {
    uint64_t node[16]; /* that were told, the root first */
    struct file file[8];
    unsigned n_nodes, n_files;
};
extern struct kernel kernel;

/* The program serves; it ends, and must have freed all, with this process. */
void kernel_begin(void);
/*
 * A request, as user 0 or 1, and its answer: 0 and what is in kernel_answer, or a negative errno;
 * -EINPROGRESS: it waits. What it tells of nodes and open files is remembered.
 */
int kernel_ask(uint32_t opcode, uint64_t node, unsigned user, const void *body, size_t bytes);
extern char kernel_answer[];
void kernel_close(unsigned file);
/* All that waits is interrupted and answered; files are closed, PMCs and instances removed. */
void kernel_end_all(void);
