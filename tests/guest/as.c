/* as UID COMMAND…: runs a command as this user and group, without other groups. busybox has no such
 * applet. */
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    unsigned id;

    if (argc < 3)
        return 2;
    id = (unsigned)atoi(argv[1]);
    if (setgroups(0, NULL) || setgid(id) || setuid(id)) {
        perror("as");
        return 126;
    }
    execvp(argv[2], argv + 2);
    perror(argv[2]);
    return 127;
}
