/*
 * Translates PIDs in records to the attacher's PID namespace.
 */
#include "core/recording/recording_state.h"

#include <string.h>

uint32_t recording_shown_pid(const struct recording *recording, uint32_t pid)
{
    const struct recording_plan *plan = &recording->plan;

    if (pid == 0 || pid == NOBODY)
        return 0;
    return plan->view ? (uint32_t)plan->host->view_pid(plan->view, (pid_t)pid) : pid;
}

void recording_forget_pid(struct recording *recording, uint32_t pid)
{
    const struct recording_plan *plan = &recording->plan;

    if (!plan->view || pid == 0 || pid == NOBODY)
        return;
    plan->host->view_forget(plan->view, (pid_t)pid);
    memset(&recording->last, 0, sizeof(recording->last));
}

static void translate_pair(const struct recording *recording, uint32_t *pid, uint32_t *tid)
{
    *pid = recording_shown_pid(recording, *pid);
    *tid = recording_shown_pid(recording, *tid);
}

void recording_translate(const struct recording *recording, struct record *record)
{
    struct record_sample *sample = (struct record_sample *)record;
    struct record_comm *comm = (struct record_comm *)record;
    struct record_task *task = (struct record_task *)record;
    struct record_map *map = (struct record_map *)record;
    struct record_note *note = (struct record_note *)record;
    struct record_tail *tail = record_tail(record);

    if (record->type == RECORD_SAMPLE) {
        translate_pair(recording, &sample->pid, &sample->tid);
    } else if (record->type == RECORD_COMM) {
        translate_pair(recording, &comm->pid, &comm->tid);
    } else if (record->type == RECORD_FORK || record->type == RECORD_EXIT) {
        translate_pair(recording, &task->pid, &task->tid);
        translate_pair(recording, &task->ppid, &task->ptid);
    } else if (record->type == RECORD_MAP && map->pid != NOBODY) {
        translate_pair(recording, &map->pid, &map->tid);
    } else if (record_is_note(record)) {
        translate_pair(recording, &note->pid, &note->tid);
    }
    if (tail)
        translate_pair(recording, &tail->pid, &tail->tid);
}
