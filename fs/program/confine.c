/*
 * Capabilities, core dumps, ptrace. Capabilities that the daemon uses are effective all the time.
 * Capabilities that container engines give by default are only permitted: a process must hold a
 * capability to ask the kernel about an opener that has it.
 */
#include "fs/program/confine.h"

#include "fs/requests/message.h"

#include <cap-ng.h>
#include <ctype.h>
#include <errno.h>
#include <linux/capability.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <syslog.h>

#define NEVER (-1)

/* Capabilities that the daemon uses. The last two are dropped after the start. */
static const struct {
    int capability;
    int instead; /* capability that replaces it, or NEVER */
    bool at_start;
    const char *without;
} used[] = {
    {CAP_SYS_ADMIN, NEVER, false,
     "pmcfs cannot mount or unmount itself, users of other user namespaces cannot attach, and "
     "nothing is counted if kernel.perf_event_paranoid is above 2 (Debian)"},
    {CAP_PERFMON, CAP_SYS_ADMIN, false,
     "depending on kernel.perf_event_paranoid, CPUs, kernel mode, tracepoints, software events "
     "(faults, switches) and processes of other users are not counted"},
    {CAP_SYS_PTRACE, NEVER, false,
     "only root processes that have no capability beyond those of pmcfs can create or change PMCs; "
     "all others get EIO"},
    {CAP_SETUID, NEVER, false, "only root can attach"},
    {CAP_SETGID, NEVER, false, "only root can attach"},
    {CAP_DAC_READ_SEARCH, NEVER, false,
     "pmcfs cannot mount below directories, or reread a configuration in directories, whose "
     "permission bits exclude root"},
    {CAP_KILL, NEVER, false,
     "a hanging process that checks rights in another user namespace cannot be killed"},
    {CAP_IPC_LOCK, NEVER, false,
     "all sampling PMCs share the memory that kernel.perf_event_mlock_kb and RLIMIT_MEMLOCK allow"},
    {CAP_SETPCAP, NEVER, true, "the bounding set stays as it is"},
    {CAP_SYS_RESOURCE, NEVER, true, NULL /* if the limit of descriptors is small */},
};

/* Default capabilities of a process in a container. */
static const int usual[] = {
    CAP_CHOWN,  CAP_DAC_OVERRIDE, CAP_FOWNER,           CAP_FSETID,      CAP_KILL,
    CAP_SETGID, CAP_SETUID,       CAP_SETPCAP,          CAP_SETFCAP,     CAP_NET_RAW,
    CAP_MKNOD,  CAP_SYS_CHROOT,   CAP_NET_BIND_SERVICE, CAP_AUDIT_WRITE,
};

#define N_USED  (sizeof used / sizeof *used)
#define N_USUAL (sizeof usual / sizeof *usual)

static bool has_capability(int capability)
{
    return capng_have_capability(CAPNG_PERMITTED, (unsigned)capability) != 0;
}

static void warn_without(int capability, const char *what)
{
    char name[32] = "";
    const char *lower = capng_capability_to_name((unsigned)capability);

    for (size_t i = 0; lower && lower[i] && i + 1 < sizeof name; i++)
        name[i] = (char)toupper((unsigned char)lower[i]);
    message_log(LOG_WARNING, "without CAP_%s: %s", name, what);
}

bool capability_held(int capability)
{
    capng_get_caps_process();
    return has_capability(capability);
}

void capabilities_report(void)
{
    struct rlimit limit;

    capng_get_caps_process();
    for (size_t i = 0; i < N_USED; i++) {
        int instead = used[i].instead;

        if (has_capability(used[i].capability) || (instead != NEVER && has_capability(instead)))
            continue;
        if (used[i].without)
            warn_without(used[i].capability, used[i].without);
        else if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_max < 16384)
            message_log(
                LOG_WARNING,
                "without CAP_SYS_RESOURCE: at most %llu file descriptors, and each event needs one "
                "for each thread or CPU",
                (unsigned long long)limit.rlim_max);
    }
    for (size_t i = 0; i < N_USUAL; i++) {
        bool reported = false;

        for (size_t j = 0; j < N_USED; j++)
            reported |= used[j].capability == usual[i];
        if (!has_capability(usual[i]) && !reported)
            warn_without(usual[i],
                         "only users with CAP_SYS_PTRACE can attach to processes that have it");
    }
}

/*
 * Forbids core dumps, too. A limit of 0 does not stop a piped core handler (core(5)); the kernel
 * treats 1 as "no handler either".
 */
bool confine_process(void)
{
    const struct rlimit one = {1, 1}, none = {0, 0};
    uint64_t effective = 0, permitted = 0;

    capng_get_caps_process(); /* both sets first: capng_clear() clears what was read */
    for (size_t i = 0; i < N_USED; i++)
        if (has_capability(used[i].capability) && !used[i].at_start)
            effective |= UINT64_C(1) << used[i].capability;
    for (size_t i = 0; i < N_USUAL; i++)
        if (has_capability(usual[i]))
            permitted |= UINT64_C(1) << usual[i];
    permitted |= effective;
    capng_clear(CAPNG_SELECT_ALL);
    for (unsigned capability = 0; capability < 64; capability++) {
        if (permitted >> capability & 1)
            capng_update(CAPNG_ADD, CAPNG_PERMITTED | CAPNG_BOUNDING_SET, capability);
        if (effective >> capability & 1)
            capng_update(CAPNG_ADD, CAPNG_EFFECTIVE, capability);
    }
    if (capng_apply(CAPNG_SELECT_ALL) == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
        (setrlimit(RLIMIT_CORE, &one) == 0 || setrlimit(RLIMIT_CORE, &none) == 0) &&
        prctl(PR_SET_DUMPABLE, 0) == 0)
        return true;
    message_log(LOG_ERR, "cannot drop the capabilities that pmcfs does not use: %s",
                strerror(errno));
    return false;
}
