/*
 * The processes and threads that live, as text for a later worker and back.
 */
#include "core/lives_parts.h"

#include <inttypes.h>
#include <stdio.h>

void numbers_print(struct buf *out, const uint64_t *value, size_t n)
{
    for (size_t i = 0; i < n; i++)
        buf_printf(out, " %" PRIu64, value[i]);
}

bool numbers_scan(const char **at, uint64_t *value, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        int used = 0;

        if (sscanf(*at, " %" SCNu64 "%n", &value[i], &used) != 1)
            return false;
        *at += used;
    }
    return true;
}

/* Each process, oldest first: its numbers, then its threads. Behind those that parted. */
static void print_list(const struct lives *lives, const struct life_list *list, struct buf *out)
{
    for (const struct life *process = list->oldest; process; process = process->younger) {
        buf_printf(out, " p %" PRIu32 " %d %d %" PRIu64, process->node.key, process->seen,
                   process->inexact, process->losses);
        numbers_print(out, process->value, lives->n);
        for (const struct life_thread *thread = process->threads; thread; thread = thread->next)
            buf_printf(out, " t %" PRIu32 " %d %d", thread->node.key, (int)thread->mark,
                       thread->done);
    }
}

void lives_print(const struct lives *lives, struct buf *out)
{
    buf_printf(out, " %" PRIu64 " %d %d", lives->losses, (int)lives->strangers, lives->parted_many);
    for (size_t i = 0; i < lives->parted.size; i++)
        for (const struct life_node *node = lives->parted.bucket[i]; node; node = node->next)
            buf_printf(out, " l %" PRIu32, node->key);
    print_list(lives, &lives->seen, out);
    print_list(lives, &lives->unseen, out);
}

static bool is_mark(int mark)
{
    return mark >= MARK_NONE && mark <= MARK_SPANS;
}

static bool scan_process(struct lives *lives, const char **at, struct life **out)
{
    struct life *process;
    uint32_t pid;
    uint64_t losses;
    int seen, inexact, used = 0;

    if (sscanf(*at, " p %" SCNu32 " %d %d %" SCNu64 "%n", &pid, &seen, &inexact, &losses, &used) <
            4 ||
        life_find(&lives->processes, pid))
        return false;
    *at += used;
    process = life_make(lives, pid, false);
    if (!process)
        return false;
    if (seen)
        life_see(lives, process);
    process->inexact = inexact;
    process->losses = losses;
    *out = process;
    return numbers_scan(at, process->value, lives->n);
}

static bool scan_parted(struct lives *lives, const char **at)
{
    uint32_t pid;
    int used = 0;

    if (sscanf(*at, " l %" SCNu32 "%n", &pid, &used) < 1)
        return false;
    *at += used;
    life_part_add(lives, pid);
    return true;
}

static bool scan_thread(struct lives *lives, const char **at, struct life *process)
{
    struct life_thread *thread;
    uint32_t tid;
    int mark, done, used = 0;

    if (sscanf(*at, " t %" SCNu32 " %d %d%n", &tid, &mark, &done, &used) < 3 || !process ||
        !is_mark(mark) || life_find(&lives->threads, tid))
        return false;
    *at += used;
    thread = life_thread_make(lives, process, tid, (enum mark)mark);
    if (thread)
        thread->done = done;
    return thread != NULL;
}

bool lives_scan(struct lives *lives, const char *text)
{
    struct life *process = NULL;
    int strangers, many, used = 0;

    if (sscanf(text, " %" SCNu64 " %d %d%n", &lives->losses, &strangers, &many, &used) < 3 ||
        !is_mark(strangers))
        return false;
    lives->strangers = (enum mark)strangers;
    for (text += used; text[0] == ' ' && text[1] == 'l';)
        if (!scan_parted(lives, &text))
            return false;
    lives->parted_many |= many != 0;
    while (*text == ' ')
        if (!(text[1] == 'p' ? scan_process(lives, &text, &process)
                             : scan_thread(lives, &text, process)))
            return false;
    return *text == '\0' || *text == '\n';
}
