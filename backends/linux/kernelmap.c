/*
 * Where the kernel lies, as perf tells it in its files: all addresses that can only be the
 * kernel's. Where exactly its text begins and what each address is called, the reader's perf finds
 * in its own /proc/kallsyms, with its user's rights.
 */
#include "backends/linux/inventory.h"
#include "core/backend.h"
#include "core/record.h"

#define KERNEL (UINT64_C(1) << 63)

void linux_kernel_maps(struct host_state *state, uint64_t time_ns, const struct intake *intake)
{
    const struct map_facts map = {.pid = UINT32_MAX,
                                  .start = KERNEL,
                                  .length = UINT64_MAX - KERNEL,
                                  .path = "[kernel.kallsyms]_text"};
    struct buf out;

    (void)state;
    buf_init(&out, NULL, 0);
    record_add_map(&out, time_ns, &map, RECORD_FOUND | RECORD_KERNEL);
    inventory_hand(&out, intake);
    buf_free(&out);
}
