/*
 * The lines of a log that pmcfs itself tells: what was done to the PMC, what was counted, what was
 * lost.
 */
#include "core/pen.h"

static void put_values(struct pen *pen, const struct record_note *note)
{
    for (unsigned i = 0; i < note->n; i++) {
        pen_make_room(pen);
        if (i)
            *pen->p++ = ',';
        put_u64(pen, note->value[i]);
    }
}

static void put_note_text(struct pen *pen, const struct record_note *note)
{
    put_text(pen, note_text(note), note->text_len);
}

static void put_note_pid(struct pen *pen, const struct record_note *note)
{
    PUT(pen, " pid=");
    put_pid(pen, note->pid);
}

/* Nobody: what is left over. */
static void put_note_somebody(struct pen *pen, const struct record_note *note)
{
    if (note->pid)
        put_note_pid(pen, note);
    else
        PUT(pen, " pid=-");
}

static void put_target(struct pen *pen, const struct record_note *note, size_t word_len)
{
    PUT(pen, " target=");
    put_text(pen, note_text(note), word_len);
    if (note->pid)
        put_note_pid(pen, note);
    if (note->tid) {
        PUT(pen, " tid=");
        put_pid(pen, note->tid);
    }
    if (note->cpu != UINT32_MAX) {
        PUT(pen, " cpu=");
        put_u64(pen, note->cpu);
    }
}

static void put_allocate(struct pen *pen, const struct record_note *note)
{
    PUT(pen, " event=");
    put_events(pen, note_text(note), note->text_len);
}

static void put_attach(struct pen *pen, const struct record_note *note)
{
    put_target(pen, note, note->text_len);
}

/* The reason is the last word. */
static void put_detach(struct pen *pen, const struct record_note *note)
{
    const char *text = note_text(note), *blank = memrchr(text, ' ', note->text_len);
    size_t word_len = blank ? (size_t)(blank - text) : note->text_len;

    put_target(pen, note, word_len);
    PUT(pen, " reason=");
    if (blank)
        put_text(pen, blank + 1, note->text_len - word_len - 1);
    else
        PUT(pen, "-");
}

static void put_switch(struct pen *pen, const struct record_note *note)
{
    put_note_somebody(pen, note);
    if (note->tid) {
        PUT(pen, " tid=");
        put_pid(pen, note->tid);
    } else {
        PUT(pen, " tid=-");
    }
    PUT(pen, " cpu=");
    put_cpu(pen, note->cpu);
    PUT(pen, " count=");
    put_values(pen, note);
    if (note->head.misc & RECORD_LAST)
        PUT(pen, " last=yes");
}

static void put_exit(struct pen *pen, const struct record_note *note)
{
    put_note_somebody(pen, note);
    if (!note->n)
        return;
    PUT(pen, " count=");
    put_values(pen, note);
    if (!note->pid)
        return;
    if (note->head.misc & RECORD_EXACT)
        PUT(pen, " exact=yes");
    else
        PUT(pen, " exact=no");
}

static void put_exec(struct pen *pen, const struct record_note *note)
{
    put_note_pid(pen, note);
    PUT(pen, " path=");
    put_note_text(pen, note);
}

static void put_unmap(struct pen *pen, const struct record_note *note)
{
    static const char *const keys[] = {" start=", " end=", " offset="};

    put_note_pid(pen, note);
    for (unsigned i = 0; i < 3; i++) {
        pen->p = stpcpy(pen->p, keys[i]);
        if (i < note->n)
            put_hex(pen, note->value[i]);
        else
            PUT(pen, "-");
    }
    PUT(pen, " path=");
    put_note_text(pen, note);
}

static void put_process(struct pen *pen, const struct record_note *note)
{
    put_note_pid(pen, note);
    PUT(pen, " name=");
    put_note_text(pen, note);
}

static void put_thread(struct pen *pen, const struct record_note *note)
{
    put_note_pid(pen, note);
    PUT(pen, " tid=");
    put_pid(pen, note->tid);
    if (!note->text_len)
        return;
    PUT(pen, " name=");
    put_note_text(pen, note);
}

static void put_user(struct pen *pen, const struct record_note *note)
{
    PUT(pen, " text=");
    put_note_text(pen, note);
}

static void put_drop(struct pen *pen, const struct record_note *note)
{
    PUT(pen, " records=");
    if (note->n)
        put_u64(pen, note->value[0]);
    else
        PUT(pen, "-");
    PUT(pen, " where=");
    put_note_text(pen, note);
}

static void put_nothing(struct pen *pen, const struct record_note *note)
{
    (void)pen, (void)note;
}

static void (*const note_fields[])(struct pen *pen, const struct record_note *note) = {
    [RECORD_ALLOCATE - RECORD_ALLOCATE] = put_allocate,
    [RECORD_ATTACH - RECORD_ALLOCATE] = put_attach,
    [RECORD_DETACH - RECORD_ALLOCATE] = put_detach,
    [RECORD_START - RECORD_ALLOCATE] = put_nothing,
    [RECORD_STOP - RECORD_ALLOCATE] = put_nothing,
    [RECORD_SWITCH - RECORD_ALLOCATE] = put_switch,
    [RECORD_COUNT - RECORD_ALLOCATE] = put_exit,
    [RECORD_EXEC - RECORD_ALLOCATE] = put_exec,
    [RECORD_UNMAP - RECORD_ALLOCATE] = put_unmap,
    [RECORD_PROCESS - RECORD_ALLOCATE] = put_process,
    [RECORD_THREAD - RECORD_ALLOCATE] = put_thread,
    [RECORD_USER - RECORD_ALLOCATE] = put_user,
    [RECORD_DROP - RECORD_ALLOCATE] = put_drop,
    [RECORD_CLOSE - RECORD_ALLOCATE] = put_nothing,
};

void put_note(struct pen *pen, const struct record_note *note)
{
    if (!record_word(note->head.type))
        return;
    put_begin(pen, note->time, note->head.type);
    note_fields[note->head.type - RECORD_ALLOCATE](pen, note);
    PUT(pen, "\n");
}
