/*
 * What is known of a worker's crash: which request it had in hand, and where it was.
 */
#pragma once

struct hand;

/* From now on a crash of this process is noted there. */
void crash_note(struct hand *hand);
/* How the last worker ended, to the log of the system. */
void crash_tell(struct hand *hand);
