/*
 * What went wrong, for the person that reads it: an errno, the id of the cause and one sentence.
 * Every function that can refuse takes a struct err and returns err_set(...): number and sentence
 * are made where the reason is known. The list has each id once; an id may have several sentences.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/*
 * X(id, errno, where, condition): each cause once. Ids of the seed systems keep their names (E:
 * hwpmc's ERRORS, X: hwpmc's code, CS: cpc subcodes, PM: perfmon); P is pmcfs's own. EDOOFUS is
 * EDESTADDRREQ.
 */
#define ERR_LIST(X)                                                                                \
    X(E03, EBUSY, "admin", "the row is in use by process PMCs")                                    \
    X(E04, EBUSY, "admin", "the slot holds a system PMC")                                          \
    X(E05, EBUSY, "target", "another PMC on the same row already covers the process")              \
    X(E06, EBUSY, "count", "written while the PMC runs")                                           \
    X(E07, EBUSY, "config", "the initial count is set while the PMC runs")                         \
    X(E08, EDESTADDRREQ, "ctl", "log-csw or log-exit started with log=off")                        \
    X(E09, EDESTADDRREQ, "ctl", "sampling started with log=off")                                   \
    X(E10, EEXIST, "target", "this PMC is already attached to this target")                        \
    X(E14, EINVAL, "ctl", "close without a log")                                                   \
    X(E15, EINVAL, "ctl", "flush without a log")                                                   \
    X(E17, EINVAL, "admin", "neither enabled nor disabled")                                        \
    X(E19, EINVAL, "event", "no row left that can count the event")                                \
    X(E20, EINVAL, "mode", "no such mode")                                                         \
    X(E21, EINVAL, "target", "a CPU number that cannot exist")                                     \
    X(E22, EINVAL, "target", "a CPU for a process-scope PMC")                                      \
    X(E23, EINVAL, "target", "a system-scope PMC started without a CPU or cgroup")                 \
    X(E24, EINVAL, "config", "no such setting")                                                    \
    X(E26, EINVAL, "target", "a process for a system-scope PMC")                                   \
    X(E27, EINVAL, "target", "an illegal process number or word")                                  \
    X(E28, EINVAL, "target", "taken back, but not attached")                                       \
    X(E31, EINVAL, "samples", "text for the log written with log=off")                             \
    X(E32, ENOMEM, "any", "no memory")                                                             \
    X(E34, ENXIO, "admin", "the CPU is absent or offline")                                         \
    X(E35, EOPNOTSUPP, "event", "the class lacks the capability")                                  \
    X(E36, EOPNOTSUPP, "event, mode", "an event that raises no interrupt cannot be sampled")       \
    X(E37, ENXIO, "target", "the CPU is absent or offline")                                        \
    X(E38, ENXIO, "ctl", "start or stop with every CPU of the PMC offline")                        \
    X(E39, EPERM, "admin", "not the superuser")                                                    \
    X(E40, EPERM, "target", "the opener may not observe the process")                              \
    X(E43, ESRCH, "ctl", "started after it lost all its targets")                                  \
    X(E44, ESRCH, "target", "no such process")                                                     \
    X(E45, ESRCH, "target", "the process is not observed any more")                                \
    X(X02, EINVAL, "ctl", "stopped before it was ever started")                                    \
    X(X04, EINVAL, "config", "a call chain of the user's in a counting mode")                      \
    X(X05, EINVAL, "config", "descendants, log-csw or log-exit in a system mode")                  \
    X(X06, EINVAL, "event", "no such class")                                                       \
    X(X07, EPERM, "target", "system scope without the right")                                      \
    X(X08, EPERM, "event", "nothing but disabled slots would fit")                                 \
    X(X09, ESRCH, "target", "the process is exiting")                                              \
    X(X14, ENOMEM, "samples", "no memory for a record of the log")                                 \
    X(X17, EINVAL, "ctl", "no such verb")                                                          \
    X(CS01, EINVAL, "event", "no such event")                                                      \
    X(CS03, EINVAL, "event", "no such attribute, qualifier or unit mask")                          \
    X(CS04, EINVAL, "event", "an attribute's value is out of range")                               \
    X(CS08, EINVAL, "event", "the members of a set contradict each other")                         \
    X(P01, EINVAL, "config", "not of the form key=value")                                          \
    X(P02, EINVAL, "config", "a value that the setting does not take")                             \
    X(P03, EINVAL, "any", "the command was cut by an output buffer")                               \
    X(P04, E2BIG, "any", "a command of more than 128 KiB, or a text too long for the log")         \
    X(P05, EINVAL, "any", "an empty write, or a NUL inside")                                       \
    X(P06, EBUSY, "config", "a setting changed while armed, running or lost")                      \
    X(P07, EINVAL, "config", "a setting that has no place in this mode")                           \
    X(P08, ENODATA, "count, ctl, detail, metrics, series", "no event has been set yet")            \
    X(P09, EOPNOTSUPP, "event, config", "known, but not to be had on this machine")                \
    X(P10, EMFILE, "target", "more descriptors needed than the process may open")                  \
    X(P11, EDQUOT, "any", "the owner's quota is used up")                                          \
    X(P12, ENOSPC, "mkdir", "max_pmcs reached")                                                    \
    X(P13, EAGAIN, "target",                                                                       \
      "attaching took longer than attach_ms, or the kernel did not answer about it in time")       \
    X(P14, EIO, "any", "the kernel refused unexpectedly")                                          \
    X(P15, EPERM, "target", "the writer's processes cannot be seen by pmcfs")                      \
    X(P16, EPERM, "target", "pmcfs does not observe itself")                                       \
    X(P17, EBUSY, "config", "the scope changed while targets are attached")                        \
    X(P18, EPERM, "event, config", "kernel mode without the right")                                \
    X(P19, EBUSY, "event, config", "another writer has begun a set meanwhile")                     \
    X(P20, EAGAIN, "count", "multiplexed, and has not been on the hardware yet")                   \
    X(P21, EIO, "count", "the counter was lost to another user of the hardware")                   \
    X(P22, EINVAL, "mkdir, mv", "an illegal name")                                                 \
    X(P23, EEXIST, "mkdir, mv", "the name is taken")                                               \
    X(P24, ENAMETOOLONG, "mkdir, mv", "a name of more than 128 bytes")                             \
    X(P25, EPERM, "tree", "files cannot be made, linked, renamed or removed by hand")              \
    X(P26, ENODEV, "any", "the PMC of a held file was released")                                   \
    X(P27, EINVAL, "admin", "a tunable's value is out of range, or is not one")                    \
    X(P28, EINVAL, "event, config", "too many events in the set")                                  \
    X(P29, EBUSY, "any", "lifetime=open: another descriptor holds this PMC")                       \
    X(P30, EINVAL, "event, mode, target", "an event that cannot be counted in this scope")         \
    X(P31, EINVAL, "count", "the count of a sampling PMC is written")                              \
    X(P32, EPERM, "admin", "this tunable is fixed at start")                                       \
    X(P33, ENOENT, "target", "no such cgroup")                                                     \
    X(P34, ENOSPC, "mkdir", "as many instances as there may be")                                   \
    X(P35, ENOTEMPTY, "rmdir", "the instance has PMCs")                                            \
    X(P36, EINVAL, "any", "an earlier write of this open was cut")

enum err_id {
    ERR_NONE,
#define X(id, code, where, condition) id,
    ERR_LIST(X)
#undef X
    ERR_COUNT
};

struct err_row {
    const char *id;
    int code; /* positive errno */
    const char *where;
    const char *condition;
};

/* Indexed by enum err_id; row 0 is unused. ERROR IDS in pmcfs.5 is printed from it. */
extern const struct err_row err_table[ERR_COUNT];

struct err {
    enum err_id id; /* ERR_NONE: nothing has failed */
    char text[512]; /* the sentence: no newline, no final stop; other people's bytes escaped */
};

/*
 * Set the sentence and return the negative errno of the id. A NULL err is allowed. Control
 * characters and bytes that are not UTF-8 in the result become \ooo, so that it is always one line;
 * what does not fit ends in "…".
 */
int err_set(struct err *err, enum err_id id, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* No memory: E32, -ENOMEM. */
int err_nomem(struct err *err);

/* "EINVAL" for EINVAL (sign ignored); "E999" style number for an unknown one. Static storage. */
const char *err_errno_name(int code);
