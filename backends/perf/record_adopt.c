/*
 * A recorder as one line of text, and back: "rings PID BYTES CPU:FD:STAND-IN:ADDRESS… ids
 * KERNEL:LOG:PERIOD:PLACE… sums COUNTED:KNOWN steps WORD" (the ids of counters that are freed
 * already; the others come back with them; without sums none are known). The mappings of who forgot
 * it stay: without any the records would go. In the same process they are used again: kernels
 * (6.18) charge the locked memory of a second mapping, and never give that back.
 */
#include "backends/perf/recorder.h"

#include "backends/perf/census.h"
#include "backends/perf/settle.h"
#include "backends/perf/steps.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void perf_recorder_print(const struct recorder *recorder, struct buf *out)
{
    buf_printf(out, "rings %d %" PRIu64, getpid(), recorder->ring_bytes);
    for (unsigned i = 0; i < recorder->n_rings; i++) {
        const struct ring *ring = &recorder->rings[i];

        buf_printf(out, " %u:%d:%d:%" PRIuPTR, ring->cpu, ring->fd, ring->stand_in,
                   (uintptr_t)ring->page);
    }
    buf_str(out, " ids");
    for (size_t i = 0; i < recorder->n_ids; i++) {
        const struct id *id = &recorder->ids[i];

        if (!id->origin->counter && id->origin != &recorder->everywhere && id->kind == ID_EVENT)
            buf_printf(out, " %" PRIu64 ":%" PRIu64 ":%" PRIu64 ":%u", id->kernel, id->origin->set,
                       id->says_period ? 0 : id->origin->period, id->place);
    }
    settle_print(recorder, out);
    if (recorder->steps) {
        buf_str(out, " steps ");
        steps_print(recorder->steps, out);
    }
}

static int ids_scan(struct recorder *recorder, const char *text)
{
    uint64_t kernel, set, period;
    unsigned place;
    int used, rc = 0;

    while (!rc && sscanf(text, " %" SCNu64 ":%" SCNu64 ":%" SCNu64 ":%u%n", &kernel, &set, &period,
                         &place, &used) == 4) {
        struct origin *origin = calloc(1, sizeof *origin);

        if (!origin)
            return -ENOMEM;
        *origin = (struct origin){.next = recorder->origins,
                                  .recorder = recorder,
                                  .closed_ns = census_now_ns(),
                                  .set = set,
                                  .period = period};
        recorder->origins = origin;
        rc = recorder_add_id(recorder, &(struct id){.kernel = kernel,
                                                    .origin = origin,
                                                    .place = (uint8_t)place,
                                                    .says_period = !period});
        text += used;
    }
    return rc;
}

/* With what was told of the counters that are adopted next. */
static int steps_adopt(struct recorder *recorder, const char *text)
{
    if (!text)
        return 0;
    recorder->steps = steps_scan(text + strlen(" steps "), &recorder->steps_n);
    return recorder->steps ? 0 : -EINVAL;
}

/* Is all of it still mapped? */
static bool is_mapped(uintptr_t address, uint64_t bytes)
{
    return msync((void *)address, bytes, MS_ASYNC) == 0;
}

static int rings_scan(struct recorder *recorder, const char **text, bool same)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uintptr_t address;
    unsigned cpu;
    int fd, stand_in, used;

    while (sscanf(*text, " %u:%d:%d:%" SCNuPTR "%n", &cpu, &fd, &stand_in, &address, &used) == 4) {
        struct ring *ring = &recorder->rings[recorder->n_rings];
        int rc = 0;

        if (recorder->n_rings == recorder->n_cpus)
            return -EINVAL;
        if (same && is_mapped(address, page + recorder->ring_bytes)) {
            ring_found(ring, cpu, fd, (void *)address, recorder->ring_bytes);
            ring->found = true;
        } else {
            rc = ring_map(ring, cpu, fd, recorder->ring_bytes);
        }
        if (rc)
            return rc;
        ring->stand_in = stand_in;
        recorder->n_stand_ins += stand_in >= 0;
        recorder->n_rings++;
        *text += used;
    }
    return recorder->n_rings ? 0 : -EINVAL;
}

/* All is as it was before the try. */
static void rings_leave(struct recorder *recorder)
{
    while (recorder->n_rings > 0) {
        struct ring *ring = &recorder->rings[--recorder->n_rings];

        if (!ring->found)
            munmap(ring->page, (size_t)sysconf(_SC_PAGESIZE) + ring->size);
    }
}

int perf_recorder_adopt(struct backend_state *state, const struct recorder_plan *plan,
                        const char *printed, struct recorder **out)
{
    struct recorder *recorder = recorder_make(state, plan);
    int pid, used = 0, rc = 0;

    *out = NULL;
    if (!recorder)
        return -ENOMEM;
    if (sscanf(printed, "rings %d %" SCNu64 "%n", &pid, &recorder->ring_bytes, &used) != 2)
        rc = -EINVAL;
    printed += used;
    if (!rc)
        rc = rings_scan(recorder, &printed, pid == getpid());
    if (!rc && strncmp(printed, " ids", 4))
        rc = -EINVAL;
    if (!rc)
        rc = ids_scan(recorder, printed + 4);
    if (!rc)
        settle_scan(recorder, printed);
    if (!rc)
        rc = steps_adopt(recorder, strstr(printed, " steps "));
    if (rc) {
        rings_leave(recorder);
        perf_recorder_forget(recorder);
        return rc;
    }
    recorder_begin(recorder);
    *out = recorder;
    return 0;
}
