/*
 * From the code words of a struct event to the kernel's perf_event_attr.
 */
#include "backends/perf/probe/code.h"

#include <linux/perf_event.h>
#include <string.h>

void code_to_attr(const struct event *event, bool user, bool kernel, struct perf_event_attr *attr)
{
    uint64_t flags = event->code[CODE_FLAGS];

    memset(attr, 0, sizeof(*attr));
    attr->size = sizeof(*attr);
    attr->type = (uint32_t)event->code[CODE_TYPE];
    attr->config = event->code[CODE_CONFIG];
    attr->config1 = event->code[CODE_CONFIG1]; /* a breakpoint's address */
    attr->config2 = event->code[CODE_CONFIG2]; /* a breakpoint's length */
#ifdef PERF_ATTR_SIZE_VER8
    attr->config3 = event->code[CODE_CONFIG3];
#endif
    attr->precise_ip = event->code[CODE_PRECISE] & 3;
    attr->bp_type = (uint32_t)event->code[CODE_BP_TYPE];
    attr->exclude_guest = (flags & CODE_EXCLUDE_GUEST) != 0;
    if (flags & CODE_NO_EXCLUDE)
        return;
    attr->exclude_user = !user;
    attr->exclude_kernel = !kernel;
    attr->exclude_hv = !kernel;
}
