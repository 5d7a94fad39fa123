/*
 * The target of the tests of records: a program that faults, switches, forks, executes, moves to
 * another CPU or gets another name on command.
 */
#include "tests/record_test.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static void touch(unsigned long pages)
{
    char *p =
        mmap(NULL, pages * page + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    madvise(p, pages * page + page, MADV_NOHUGEPAGE);
    for (unsigned long i = 0; i < pages; i++)
        p[i * page] = 1;
    munmap(p, pages * page + page);
}

static void *touch_thread(void *arg)
{
    touch((unsigned long)(uintptr_t)arg);
    return NULL;
}

static void on_cpu(unsigned long cpu)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    sched_setaffinity(0, sizeof set, &set);
}

static void target_do(char what, unsigned long n)
{
    pthread_t thread;
    pid_t pid;

    switch (what) {
    case 'p': /* page faults */
        touch(n);
        break;
    case 't': /* page faults of a new thread */
        pthread_create(&thread, NULL, touch_thread, (void *)(uintptr_t)n);
        pthread_join(thread, NULL);
        break;
    case 'f': /* page faults of a child */
        pid = fork();
        if (pid == 0) {
            touch(n);
            _exit(0);
        }
        waitpid(pid, NULL, 0);
        break;
    case 's': /* switches */
        while (n-- > 0)
            usleep(1);
        break;
    case 'c':
        on_cpu(n);
        break;
    case 'i': /* some instructions */
        for (volatile unsigned long i = n; i > 0; i--)
            ;
        break;
    case 'n':
        prctl(PR_SET_NAME, "renamed");
        break;
    default:
        break;
    }
}

void target_main(void)
{
    char what;
    unsigned long n;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(300);
    printf("0\n");
    fflush(stdout);
    while (scanf(" %c %lu", &what, &n) == 2) {
        struct rusage before, after;

        getrusage(RUSAGE_SELF, &before);
        target_do(what, n);
        getrusage(RUSAGE_SELF, &after);
        printf("%ld\n", after.ru_minflt + after.ru_majflt - before.ru_minflt - before.ru_majflt);
        fflush(stdout);
    }
}

long ask(struct target *target, char what, unsigned long n)
{
    fprintf(target->to, "%c %lu\n", what, n);
    fflush(target->to);
    return answer(target);
}

struct target target_begin(void)
{
    struct target target = target_start("record");

    /* Runs these commands once, so that later ones have no first-time page faults. */
    ask(&target, 'p', 3);
    ask(&target, 's', 3);
    return target;
}
