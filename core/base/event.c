/*
 * Copying and freeing a resolved event.
 */
#include "core/base/event.h"

#include <stdlib.h>
#include <string.h>

void event_clear(struct event *event)
{
    free(event->written);
    free(event->resolved);
    *event = (struct event){0};
}

static bool text_copy(char **to, const char *from)
{
    *to = from ? strdup(from) : NULL;
    return *to || !from;
}

bool event_copy(struct event *to, const struct event *from)
{
    struct event copy = *from;
    bool written = text_copy(&copy.written, from->written);
    bool resolved = text_copy(&copy.resolved, from->resolved);

    if (!written || !resolved)
        event_clear(&copy);
    *to = copy;
    return written && resolved;
}
