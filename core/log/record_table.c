/*
 * The record types of `samples`. The printer, its tests and the manual use this table.
 */
#include "core/log/record.h"

/* In order of the enum. The first has no record type: each reader gets its own initialize line. */
const struct record_row record_table[] = {
    {0, "initialize", "version machine class event realtime tsc",
     "the first line for each reader, with the time of mkdir in three clocks", "INITIALIZE"},
    {RECORD_ALLOCATE, "allocate", "event", "the event was set", "PMCALLOCATE, PMCALLOCATEDYN"},
    {RECORD_ATTACH, "attach", "target [pid] [tid] [cpu]", "a target was attached", "PMCATTACH"},
    {RECORD_DETACH, "detach", "target [pid] [tid] [cpu] reason", "a target was detached",
     "PMCDETACH"},
    {RECORD_START, "start", "", "the PMC was started", ""},
    {RECORD_STOP, "stop", "", "the PMC was stopped", ""},
    {RECORD_SAMPLE, "sample", "pid tid cpu ip event period", "a sample without a call chain",
     "PCSAMPLE"},
    {RECORD_SAMPLE, "callchain", "pid tid cpu ip event period ips",
     "a sample with its call chain. Kernel frames start with k:", "CALLCHAIN"},
    {RECORD_SWITCH, "csw", "pid tid cpu count [last] [exact]",
     "a thread left a CPU, and its count since its last record", "PROCCSW"},
    {RECORD_COUNT, "exit", "pid [count] [exact]",
     "a process exited, and its count. pid=- has the events of unknown processes",
     "PROCEXIT, SYSEXIT"},
    {RECORD_FORK, "fork", "pid child", "a process created a child", "PROCFORK"},
    {RECORD_EXEC, "exec", "pid path", "a process executed a program", "PROCEXEC"},
    {RECORD_MAP, "map-in", "pid start end offset path",
     "an executable mapping was created. pid=-1 is the kernel", "MAP_IN"},
    {RECORD_UNMAP, "map-out", "pid start end offset path", "an executable mapping was replaced",
     "MAP_OUT"},
    {RECORD_PROCESS, "process", "pid name", "a process that already ran, or that has a new name",
     "PROC_CREATE"},
    {RECORD_THREAD, "thread", "pid tid [name]",
     "a thread that already ran, is new, or has a new name", "THR_CREATE"},
    {RECORD_USER, "user", "text", "text that a user wrote to samples", "USERDATA"},
    {RECORD_DROP, "drop", "lost where [records]",
     "samples or other records were lost, or (where=throttle) the kernel paused sampling",
     "DROPNOTIFY"},
    {RECORD_CLOSE, "close", "", "the log was closed", "CLOSELOG"},
};
const unsigned record_rows = sizeof record_table / sizeof record_table[0];
