/*
 * The types of records as people meet them in `samples`: the one list that the printer, its tests
 * and the manual share.
 */
#include "core/log/record.h"

/* The order of the enum, but that the first has no record: each reader is given its own. */
const struct record_row record_table[] = {
    {0, "initialize", "version machine class event realtime tsc",
     "the first line of each reader; the same moment in CLOCK_REALTIME and TSC",
     "INITIALIZE (L03)"},
    {RECORD_ALLOCATE, "allocate", "event", "the event was set", "PMCALLOCATE, -DYN (L05, L17)"},
    {RECORD_ATTACH, "attach", "target [pid] [tid] [cpu]", "a target was attached",
     "PMCATTACH (L06)"},
    {RECORD_DETACH, "detach", "target [pid] [tid] [cpu] reason", "a target was detached, and why",
     "PMCDETACH (L07)"},
    {RECORD_START, "start", "", "it began to run", ""},
    {RECORD_STOP, "stop", "", "it was stopped", ""},
    {RECORD_SAMPLE, "sample", "pid tid cpu ip event period", "a sample without a call chain",
     "PCSAMPLE (L04)"},
    {RECORD_SAMPLE, "callchain", "pid tid cpu ip event period ips",
     "a sample with its call chain; k: stands before the kernel's frames", "CALLCHAIN (L16)"},
    {RECORD_SWITCH, "csw", "pid tid cpu count [last] [exact]",
     "a thread left the CPU: what it counted since its last record", "PROCCSW (L08)"},
    {RECORD_COUNT, "exit", "pid [count] [exact]",
     "a process ended: what it counted; pid=-: what no process can be given",
     "PROCEXIT, SYSEXIT (L10, L12)"},
    {RECORD_FORK, "fork", "pid child", "a process made another", "PROCFORK (L11)"},
    {RECORD_EXEC, "exec", "pid path", "a process executed a program", "PROCEXEC (L09)"},
    {RECORD_MAP, "map-in", "pid start end offset path",
     "an executable mapping; pid=-1: the kernel's", "MAP_IN (L14)"},
    {RECORD_UNMAP, "map-out", "pid start end offset path", "its end", "MAP_OUT (L15)"},
    {RECORD_PROCESS, "process", "pid name", "a process that was there, or has a new name",
     "PROC_CREATE (L20)"},
    {RECORD_THREAD, "thread", "pid tid [name]", "a thread that was there, was made, or renamed",
     "THR_CREATE (L18)"},
    {RECORD_USER, "user", "text", "what a user wrote to samples", "USERDATA (L13)"},
    {RECORD_DROP, "drop", "records where",
     "so many records were lost there; where=throttle: the kernel paused sampling",
     "DROPNOTIFY (L02)"},
    {RECORD_CLOSE, "close", "", "the log ended", "CLOSELOG (L01)"},
};
const unsigned record_rows = sizeof record_table / sizeof record_table[0];
