#include "fs/program/crash.h"

#include "fs/requests/hand.h"
#include "fs/requests/say.h"

#include <execinfo.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <syslog.h>

static struct hand *noted;
static void *taken[HAND_FRAMES]; /* of an earlier worker */
static int n_taken;

/* Its memory is not to be trusted: nothing is printed here. The next worker was cloned of the same
 * process, and knows what stands at these addresses. */
static void on_crash(int number, siginfo_t *info, void *context)
{
    struct in_hand *request = hand_current();

    (void)context;
    signal(number, SIG_DFL);
    if (request)
        request->crashes++;
    noted->crash.signal = number;
    noted->crash.address = info->si_addr;
    noted->crash.n = backtrace(noted->crash.frame, HAND_FRAMES);
    raise(number);
}

void crash_note(struct hand *hand)
{
    const int numbers[] = {SIGSEGV, SIGBUS, SIGABRT, SIGILL, SIGFPE};
    struct sigaction action = {.sa_sigaction = on_crash, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    void *frame;

    noted = hand;
    backtrace(&frame, 1); /* it loads a library the first time */
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        sigaction(numbers[i], &action, NULL);
}

void crash_take(struct hand *hand)
{
    memcpy(taken, hand->crash.frame, sizeof taken);
    n_taken = hand->crash.n;
    hand->crash.n = 0;
}

void crash_tell(const struct hand *hand)
{
    const int status = hand->last_status;
    char **names;

    if (!hand->last_worker)
        return;
    if (WIFSIGNALED(status))
        say(LOG_WARNING, "the serving process %d was ended by signal %d (%s); this one goes on",
            (int)hand->last_worker, WTERMSIG(status), strsignal(WTERMSIG(status)));
    else
        say(LOG_WARNING, "the serving process %d ended with status %d; this one goes on",
            (int)hand->last_worker, WEXITSTATUS(status));
    if (!n_taken)
        return;
    names = backtrace_symbols(taken, n_taken);
    for (int i = 0; names && i < n_taken; i++)
        say(LOG_WARNING, "  %s", names[i]);
    free(names);
}
