/*
 * Freeing a resolved event.
 */
#include "core/base/event.h"

#include <stdlib.h>

void event_clear(struct event *event)
{
    free(event->written);
    free(event->resolved);
    *event = (struct event){0};
}
