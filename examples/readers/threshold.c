/* Waits until `notify` more events were counted, and prints the counts: threshold PMC */
#define _POSIX_C_SOURCE 200809L
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    char path[4096], text[4096];
    snprintf(path, sizeof path, "%s/count", argc > 1 ? argv[1] : ".");
    struct pollfd count = {.fd = open(path, O_RDONLY), .events = POLLPRI};
    /* A read sets the value that the threshold is relative to. */
    if (pread(count.fd, text, sizeof text, 0) < 0 || poll(&count, 1, -1) < 0 || count.revents & POLLHUP)
        return 1;
    const ssize_t bytes = pread(count.fd, text, sizeof text, 0);
    return bytes <= 0 || fwrite(text, 1, (size_t)bytes, stdout) == 0;
}
