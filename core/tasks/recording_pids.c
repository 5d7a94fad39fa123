/*
 * The numbers in records: those of the attacher's PID namespace.
 */
#include "core/tasks/recording_state.h"

uint32_t recording_shown_pid(const struct recording *recording, uint32_t pid)
{
    const struct recording_plan *plan = &recording->plan;

    if (pid == 0 || pid == NOBODY)
        return 0;
    return plan->view ? (uint32_t)plan->host->view_pid(plan->view, (pid_t)pid) : pid;
}

void recording_forget_pid(const struct recording *recording, uint32_t pid)
{
    const struct recording_plan *plan = &recording->plan;

    if (plan->view && pid != 0 && pid != NOBODY)
        plan->host->view_forget(plan->view, (pid_t)pid);
}

static void translate_body(const struct recording *recording, struct record *record)
{
    switch ((enum record_type)record->type) {
    case RECORD_SAMPLE: {
        struct record_sample *sample = (struct record_sample *)record;

        sample->pid = recording_shown_pid(recording, sample->pid);
        sample->tid = recording_shown_pid(recording, sample->tid);
        break;
    }
    case RECORD_COMM: {
        struct record_comm *comm = (struct record_comm *)record;

        comm->pid = recording_shown_pid(recording, comm->pid);
        comm->tid = recording_shown_pid(recording, comm->tid);
        break;
    }
    case RECORD_FORK:
    case RECORD_EXIT: {
        struct record_task *task = (struct record_task *)record;

        task->pid = recording_shown_pid(recording, task->pid);
        task->tid = recording_shown_pid(recording, task->tid);
        task->ppid = recording_shown_pid(recording, task->ppid);
        task->ptid = recording_shown_pid(recording, task->ptid);
        break;
    }
    case RECORD_MAP: {
        struct record_map *map = (struct record_map *)record;

        if (map->pid == NOBODY)
            break;
        map->pid = recording_shown_pid(recording, map->pid);
        map->tid = recording_shown_pid(recording, map->tid);
        break;
    }
    default:
        break;
    }
}

void recording_translate(const struct recording *recording, struct record *record)
{
    struct record_tail *tail = record_tail(record);

    if (record_is_note(record)) {
        struct record_note *note = (struct record_note *)record;

        note->pid = recording_shown_pid(recording, note->pid);
        note->tid = recording_shown_pid(recording, note->tid);
        return;
    }
    translate_body(recording, record);
    if (tail) {
        tail->pid = recording_shown_pid(recording, tail->pid);
        tail->tid = recording_shown_pid(recording, tail->tid);
    }
}
