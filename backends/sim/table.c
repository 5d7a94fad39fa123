/*
 * The table of simulated events. Rates are all different, so that a value tells its event.
 */
#include "backends/sim/table.h"

#define ANYWHERE (EVENT_PROCESS | EVENT_CPU)

const struct sim_event sim_events[] = {
    {"cycles", "PAPI_tot_cyc", FIT_GENERAL, 1, 1000000, ANYWHERE, true, false, "", 1,
     "cycles of the core"},
    {"instructions", "PAPI_tot_ins", FIT_BOTH, 1, 2000000, ANYWHERE, true, false, "", 1,
     "instructions retired"},
    {"branches", "PAPI_br_ins", FIT_GENERAL, 1, 400000, ANYWHERE, true, false, "", 1,
     "branch instructions retired"},
    {"branch-misses", "PAPI_br_msp", FIT_GENERAL, 1, 8000, ANYWHERE, true, false, "", 1,
     "branches predicted wrongly"},
    {"cache-references", "PAPI_l3_tca", FIT_GENERAL, 1, 50000, ANYWHERE, true, false, "", 1,
     "accesses to the last cache"},
    {"cache-misses", "PAPI_l3_tcm", FIT_GENERAL, 1, 5000, ANYWHERE, true, false, "", 1,
     "accesses that missed the last cache"},
    {"loads", "PAPI_ld_ins", FIT_EVEN, 1, 600000, ANYWHERE, true, false, "", 1,
     "loads retired; only even rows can count them"},
    {"wide", NULL, FIT_GENERAL, 2, 300000, ANYWHERE, false, false, "", 1,
     "an event that needs two rows, and raises no interrupt"},
    {"fixed-instructions", NULL, FIT_FIXED, 1, 2000000, ANYWHERE, true, false, "", 1,
     "instructions retired, by the fixed counter only (sim_fixed=1)"},
    {"package", NULL, FIT_GENERAL, 1, 64000000, EVENT_CPU | EVENT_PACKAGE, false, true, "Joules",
     0x1p-32, "energy of the package, about 15 W; CPUs only"},
    {"task-clock", NULL, FIT_SOFTWARE, 0, 1000000, ANYWHERE, true, true, "ns", 1, "time on a CPU"},
    {"cpu-clock", NULL, FIT_SOFTWARE, 0, 1000000, ANYWHERE, true, true, "ns", 1,
     "time, as a CPU sees it"},
    {"page-faults", NULL, FIT_SOFTWARE, 0, 2, ANYWHERE, true, true, "", 1, "page faults"},
    {"context-switches", NULL, FIT_SOFTWARE, 0, 3, ANYWHERE, true, true, "", 1,
     "switches to another task"},
};
const unsigned sim_events_n = sizeof sim_events / sizeof sim_events[0];

bool table_is_of(const struct shape *shape, unsigned class_index, const struct sim_event *event)
{
    return (event->fit == FIT_SOFTWARE) == (shape->classes[class_index].rows == 0);
}

uint64_t table_fits(const struct shape *shape, unsigned class_index, const struct sim_event *event)
{
    const uint64_t general = shape_general(shape, class_index);
    const uint64_t fixed = shape_fixed(shape, class_index);

    switch (event->fit) {
    case FIT_GENERAL:
        return general;
    case FIT_EVEN:
        return general & UINT64_C(0x5555555555555555);
    case FIT_BOTH:
        return general | fixed;
    case FIT_FIXED:
        return fixed;
    case FIT_SOFTWARE:
        break;
    }
    return 0;
}

bool table_counts(const struct shape *shape, unsigned class_index, const struct sim_event *event)
{
    const uint64_t fits = table_fits(shape, class_index, event);

    return table_is_of(shape, class_index, event) &&
           (unsigned)__builtin_popcountll(fits) >= event->needed;
}
