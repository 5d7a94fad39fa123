/*
 * Forget everything and make it again of the journal: what a new worker does, in the running program.
 * Proves that nothing lives in pointers alone. In debug builds SIGUSR2 does it.
 */
#pragma once

struct fs;

/* On the main thread. A state that cannot be loaded ends the program with the sentence. */
void fs_reload(struct fs *fs);
