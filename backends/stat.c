/*
 * The one parser of stat files.
 */
#include "backends/stat.h"

#include "backends/look.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define TASK_EXITING   4    /* PF_EXITING */
#define TASK_IO_WORKER 0x10 /* PF_IO_WORKER */

/* The command's name, second field, may contain blanks and brackets: count from the last one. */
int proc_stat_scan(const char *text, struct proc_stat *out)
{
    unsigned flags = 0;
    const char *p = strrchr(text, ')');
    int n = p ? sscanf(p,
                       ") %c %*s %*s %*s %*s %*s %u %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
                       "%*s %lu",
                       &out->state, &flags, &out->start)
              : 0;

    out->exiting = n == 3 && (flags & TASK_EXITING);
    out->io_worker = n == 3 && (flags & TASK_IO_WORKER);
    return n == 3 ? 0 : -ESRCH;
}

int proc_stat_at(int dir, const char *path, struct proc_stat *out)
{
    char text[1024];
    const ssize_t len = look_file(dir, path, text, sizeof text);

    return len < 0 ? (int)len : proc_stat_scan(text, out);
}

bool proc_is_gone(int rc)
{
    return rc == -ENOENT || rc == -ESRCH;
}

bool proc_stat_dead(const struct proc_stat *stat)
{
    return stat->state == 'Z' || stat->state == 'X';
}
