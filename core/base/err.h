/*
 * Errors for people: an errno, the id of the cause and one sentence. A function that can refuse
 * takes a struct err and returns err_set(...), so that both are set where the reason is known. An
 * id may have several sentences.
 */
#pragma once

#include <stdbool.h>

/*
 * X(id, errno, where, condition). Ids of the reference systems keep their names (E: hwpmc's ERRORS,
 * X: hwpmc's code, CS: cpc subcodes, PM: perfmon); P ids are pmcfs's. hwpmc's EDOOFUS is
 * EDESTADDRREQ here.
 */
#define ERR_LIST(X)                                                                                \
    X(E03, EBUSY, "admin", "PMCs in process scope use the row")                                    \
    X(E04, EBUSY, "admin", "a PMC in system scope uses the counter")                               \
    X(E05, EBUSY, "target", "another PMC on the same row already covers the process")              \
    X(E06, EBUSY, "count", "count written while the PMC runs")                                     \
    X(E07, EBUSY, "config", "initial count set while the PMC runs")                                \
    X(E08, EDESTADDRREQ, "ctl", "log-csw or log-exit started with log=off")                        \
    X(E09, EDESTADDRREQ, "ctl", "sampling started with log=off")                                   \
    X(E10, EEXIST, "target", "the PMC is already attached to this target")                         \
    X(E14, EINVAL, "ctl", "close without a log")                                                   \
    X(E15, EINVAL, "ctl", "flush without a log")                                                   \
    X(E17, EINVAL, "admin", "the word is neither enabled nor disabled")                            \
    X(E19, EINVAL, "event, config", "no free row can count the event")                             \
    X(E20, EINVAL, "mode", "unknown mode")                                                         \
    X(E21, EINVAL, "target", "the CPU number is out of range")                                     \
    X(E22, EINVAL, "target", "a CPU was written to a PMC in process scope")                        \
    X(E23, EINVAL, "target", "a PMC in system scope was started without a CPU or cgroup")          \
    X(E24, EINVAL, "config", "unknown setting")                                                    \
    X(E26, EINVAL, "target", "a process was written to a PMC in system scope")                     \
    X(E27, EINVAL, "target", "not a valid target")                                                 \
    X(E28, EINVAL, "target", "detach of a target that is not attached")                            \
    X(E31, EINVAL, "samples", "text written to samples with log=off")                              \
    X(E32, ENOMEM, "any", "out of memory")                                                         \
    X(E34, ENXIO, "admin", "the CPU is absent or offline")                                         \
    X(E35, EOPNOTSUPP, "event", "the class does not support this option")                          \
    X(E36, EOPNOTSUPP, "event, mode",                                                              \
      "the event cannot be sampled, because it raises no interrupt")                               \
    X(E37, ENXIO, "target", "the CPU is absent or offline")                                        \
    X(E38, ENXIO, "ctl", "start or stop with every CPU of the PMC offline")                        \
    X(E39, EPERM, "admin", "only the superuser may do this")                                       \
    X(E40, EPERM, "target", "the opener may not observe the process")                              \
    X(E43, ESRCH, "ctl", "start, but all targets have exited")                                     \
    X(E44, ESRCH, "target", "no process has this number")                                          \
    X(E45, ESRCH, "target", "the process is no longer observed")                                   \
    X(X02, EINVAL, "ctl", "stop before the first start")                                           \
    X(X04, EINVAL, "config", "callchain=user in a counting mode")                                  \
    X(X05, EINVAL, "config", "descendants, log-csw or log-exit in a system mode")                  \
    X(X06, EINVAL, "event", "unknown class")                                                       \
    X(X07, EPERM, "target", "system scope without the required rights")                            \
    X(X08, EPERM, "event", "only disabled rows can count the event")                               \
    X(X09, ESRCH, "target", "the process is exiting")                                              \
    X(X14, ENOMEM, "samples", "out of memory for a record of the log")                             \
    X(X17, EINVAL, "ctl", "unknown verb")                                                          \
    X(CS01, EINVAL, "event", "unknown event")                                                      \
    X(CS03, EINVAL, "event", "unknown attribute, qualifier or unit mask")                          \
    X(CS04, EINVAL, "event", "the value of an attribute is out of range")                          \
    X(CS08, EINVAL, "event", "the events of a set contradict each other")                          \
    X(P01, EINVAL, "config", "the word is not of the form key=value")                              \
    X(P02, EINVAL, "config", "not a valid value for the setting")                                  \
    X(P03, EINVAL, "any", "the command was cut by an output buffer")                               \
    X(P04, E2BIG, "any", "the command has more than 128 KiB, or the text is too long for the log") \
    X(P05, EINVAL, "any", "the command is empty or contains a NUL")                                \
    X(P06, EBUSY, "config", "setting changed while the PMC is armed, running or lost")             \
    X(P07, EINVAL, "config", "the setting cannot be used in this mode")                            \
    X(P08, ENODATA, "count, ctl, detail, metrics, series", "no event is set")                      \
    X(P09, EOPNOTSUPP, "event, config", "a known event that cannot be counted on this host")       \
    X(P10, EMFILE, "any", "more file descriptors needed than pmcfs may open")                      \
    X(P11, EDQUOT, "any", "the owner's quota is used up")                                          \
    X(P12, ENOSPC, "mkdir", "the limit max_pmcs is reached")                                       \
    X(P13, EAGAIN, "target",                                                                       \
      "attaching took longer than attach_ms, or the rights could not be checked in time")          \
    X(P14, EIO, "any", "the kernel refused a call unexpectedly")                                   \
    X(P15, EPERM, "target", "pmcfs cannot see the PID namespace of the writer")                    \
    X(P16, EPERM, "target", "pmcfs does not observe itself")                                       \
    X(P17, EBUSY, "config", "change of scope while targets are attached")                          \
    X(P18, EPERM, "event, config", "kernel mode without the required rights")                      \
    X(P19, EBUSY, "event, config", "another writer has replaced the set")                          \
    X(P20, EAGAIN, "count", "the multiplexed event has not been on the hardware yet")              \
    X(P21, EIO, "count", "the counter was lost to another user of the hardware")                   \
    X(P22, EINVAL, "mkdir, mv", "the name is not valid")                                           \
    X(P23, EEXIST, "mkdir, mv", "the name is in use")                                              \
    X(P24, ENAMETOOLONG, "mkdir, mv", "the name has more than 255 bytes")                          \
    X(P25, EPERM, "tree", "files cannot be created, linked, renamed or removed")                   \
    X(P26, ENODEV, "any", "the PMC of an open file was released")                                  \
    X(P27, EINVAL, "admin", "not a valid value for the tunable")                                   \
    X(P28, EINVAL, "event, config", "too many events in the set")                                  \
    X(P29, EBUSY, "any", "lifetime=open, and another open file holds the PMC")                     \
    X(P30, EINVAL, "event, mode, target", "the event cannot be counted in this scope")             \
    X(P31, EINVAL, "count", "count written in a sampling mode")                                    \
    X(P32, EPERM, "admin", "the tunable is fixed at start")                                        \
    X(P33, ENOENT, "target", "the cgroup does not exist")                                          \
    X(P34, ENOSPC, "mkdir", "the maximum number of instances is reached")                          \
    X(P35, ENOTEMPTY, "rmdir", "the instance has PMCs")                                            \
    X(P36, EINVAL, "any", "an earlier write to this open file was cut")                            \
    X(P37, EAGAIN, "any", "waited for a third of the kernel's FUSE request timeout")

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

/* Indexed by enum err_id; row 0 is unused. ERROR IDS in pmcfs.5 is generated from it. */
extern const struct err_row err_table[ERR_COUNT];

struct err {
    enum err_id id; /* ERR_NONE: no error */
    char text[512]; /* the sentence: no newline, no final stop; bytes from users are escaped */
};

/*
 * Sets the sentence and returns the negative errno of the id. err may be NULL. Control characters
 * and invalid UTF-8 become \ooo, so that the sentence is one line. A sentence that is too long is
 * cut and gets "…".
 */
int err_set(struct err *err, enum err_id id, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Returns true if this -errno is a lack of memory or descriptors. */
bool is_shortage(int rc);
/* Sets E32 (no memory) and returns -ENOMEM. */
int err_nomem(struct err *err);
/* If is_shortage(rc), sets E32 or P10 (file descriptors) and returns -errno of the id; otherwise
 * returns 0. */
int err_shortage(struct err *err, int rc);

/* Returns "EINVAL" for EINVAL or -EINVAL, and "E999" for an unknown number. Static storage. */
const char *err_errno_name(int code);
