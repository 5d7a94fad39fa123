/*
 * What is known of a worker's crash: which request it had in hand, and where it was.
 */
#pragma once

struct hand;

/* From now on a crash of this process is noted there. */
void crash_note(struct hand *hand);
/* What an earlier one noted is taken out, before this one has a thread that may crash … */
void crash_take(struct hand *hand);
/* … and told, with how the last worker ended, to the log of the system. */
void crash_tell(const struct hand *hand);
