/*
 * Whose records they are: children, threads, CPUs, cgroups, programs executed; and what else is
 * told.
 */
#include "tests/record_test.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void test_children(bool descendants)
{
    struct target target = target_begin();
    struct run run = {.n = 0};
    unsigned long of_child = 0;

    run_plan(&run, &target);
    run.plan.descendants = descendants;
    if (recorder_begin_with(&run, RING) && run_attach(&run)) {
        ask(&target, 'f', 64);
        ask(&target, 't', 32);
        perf_stop(run.counter);
        drain(&run, true);
        EACH(&run, record)
        of_child +=
            record->type == RECORD_SAMPLE &&
            ((const struct record_sample *)(const void *)record)->pid != (uint32_t)target.pid;
        check(samples_of(&run, 0) == value_at(&run, 0) && (of_child >= 64) == descendants,
              descendants ? "children are sampled" : "children are left out",
              ": %lu samples of %lu, %lu of the child", samples_of(&run, 0),
              (unsigned long)value_at(&run, 0), of_child);
        check(count_type(&run, RECORD_FORK) == (descendants ? 2 : 1) &&
                  count_type(&run, RECORD_EXIT) == (descendants ? 2 : 1),
              "births and ends are told of who is covered", ": %lu, %lu",
              count_type(&run, RECORD_FORK), count_type(&run, RECORD_EXIT));
    }
    run_end(&run);
    target_end(&target);
}

void test_facts(void)
{
    struct target target = target_begin();
    struct run run = {.n = 0};
    unsigned long maps = 0, names = 0, execs = 0;

    run_plan(&run, &target);
    run.plan.period = 1000000;
    if (recorder_begin_with(&run, RING) && run_attach(&run)) {
        ask(&target, 'm', 0);
        ask(&target, 'n', 0);
        ask(&target, 'e', 0);
        perf_stop(run.counter);
        drain(&run, true);
        EACH(&run, record)
        {
            const struct record_map *map = (const void *)record;
            const struct record_comm *comm = (const void *)record;

            maps += record->type == RECORD_MAP && strstr(map->path, "/record") &&
                    map->pid == (uint32_t)target.pid && map->length >= page;
            names += record->type == RECORD_COMM && !strcmp(comm->name, "renamed");
            execs += record->type == RECORD_COMM && record->misc & RECORD_EXECUTED;
        }
        check(maps >= 2 && names == 1 && execs == 1, "mappings, names and execs are told",
              ": %lu, %lu, %lu", maps, names, execs);
    }
    run_end(&run);
    target_end(&target);
}

void test_exec(void)
{
    struct target target = target_begin();
    struct run run = {.n = 0};
    const struct record *first;

    run_plan(&run, &target);
    run.plan.at_exec = true;
    if (recorder_begin_with(&run, RING) && run_attach(&run)) {
        ask(&target, 'p', 40);
        drain(&run, true);
        check(run.n == 0, "nothing is told before the exec", ": %zu bytes", run.n);
        ask(&target, 'e', 0);
        ask(&target, 'p', 40);
        perf_stop(run.counter);
        drain(&run, true);
        first = first_record(&run);
        check(first && samples_of(&run, 0) >= 40 && samples_of(&run, 0) == value_at(&run, 0) &&
                  count_type(&run, RECORD_COMM) >= 1 && count_type(&run, RECORD_MAP) >= 1,
              "all is told from it on", ": %lu of %lu", samples_of(&run, 0),
              (unsigned long)value_at(&run, 0));
    }
    run_end(&run);
    target_end(&target);
}

void test_cpu(void)
{
    struct target target = target_begin();
    struct run run = {.n = 0};
    unsigned long of_target = 0, of_other_cpu = 0;

    ask(&target, 'c', 1);
    run_plan(&run, NULL);
    run.plan.target = (struct target_ref){.kind = TARGET_CPU, .cpu = 1, .cgroup_fd = -1};
    if (recorder_begin_with(&run, RING) && run_attach(&run)) {
        ask(&target, 'p', 50);
        perf_stop(run.counter);
        drain(&run, true);
        EACH(&run, record)
        if (record->type == RECORD_SAMPLE) {
            const struct record_sample *s = (const void *)record;

            of_target += s->pid == (uint32_t)target.pid;
            of_other_cpu += s->cpu != 1;
        }
        check(of_target >= 50 && !of_other_cpu && samples_of(&run, 0) == value_at(&run, 0),
              "a CPU's samples are those of its tasks", ": %lu of the target, %lu of other CPUs",
              of_target, of_other_cpu);
    }
    run_end(&run);
    target_end(&target);
}

/* The unified hierarchy, wherever it is mounted. */
static bool cgroup_make(char path[256])
{
    FILE *mounts = fopen("/proc/self/mounts", "re");
    char line[512], place[200];
    bool made = false;

    while (mounts && !made && fgets(line, sizeof line, mounts))
        if (sscanf(line, "%*s %199s cgroup2 ", place) == 1 && strstr(line, " cgroup2 ")) {
            snprintf(path, 256, "%s/record-test-%d", place, getpid());
            made = mkdir(path, 0755) == 0;
        }
    if (mounts)
        fclose(mounts);
    return made;
}

static void cgroup_join(const char *path, pid_t pid)
{
    char file[300];
    FILE *procs;

    snprintf(file, sizeof file, "%s/cgroup.procs", path);
    procs = fopen(file, "we");
    if (procs) {
        fprintf(procs, "%d\n", pid);
        fclose(procs);
    }
}

void test_cgroup(void)
{
    struct target target = target_begin(), other = target_begin();
    struct run run = {.n = 0};
    unsigned long of_others = 0;
    char path[256];

    if (!cgroup_make(path)) {
        printf("# no cgroup v2: it is not tried\n");
        target_end(&target);
        target_end(&other);
        return;
    }
    cgroup_join(path, target.pid);
    run_plan(&run, NULL);
    run.plan.target = (struct target_ref){
        .kind = TARGET_CGROUP, .cgroup_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    if (recorder_begin_with(&run, RING) && run_attach(&run)) {
        ask(&other, 'p', 100);
        ask(&target, 'c', 0);
        ask(&target, 'p', 50);
        ask(&target, 'c', 1);
        ask(&target, 'f', 50);
        perf_stop(run.counter);
        drain(&run, true);
        EACH(&run, record)
        of_others +=
            record->type == RECORD_SAMPLE &&
            ((const struct record_sample *)(const void *)record)->pid == (uint32_t)other.pid;
        check(samples_of(&run, 0) >= 100 && !of_others && samples_of(&run, 0) == value_at(&run, 0),
              "a cgroup's samples are those of its tasks", ": %lu of %lu, %lu of others",
              samples_of(&run, 0), (unsigned long)value_at(&run, 0), of_others);
    }
    close(run.plan.target.cgroup_fd);
    run_end(&run);
    target_end(&target);
    target_end(&other);
    rmdir(path);
}

void test_thread(void)
{
    struct target target = target_begin();
    struct run run = {.n = 0};

    run_plan(&run, &target);
    run.plan.target.kind = TARGET_THREAD;
    run.plan.target.tid = target.pid;
    if (recorder_begin_with(&run, RING) && run_attach(&run)) {
        ask(&target, 'p', 40);
        ask(&target, 't', 500);
        perf_stop(run.counter);
        drain(&run, true);
        check(samples_of(&run, 0) == value_at(&run, 0) && samples_of(&run, 0) >= 40 &&
                  samples_of(&run, 0) < 500 && !count_type(&run, RECORD_FORK),
              "one thread alone is sampled", ": %lu of %lu", samples_of(&run, 0),
              (unsigned long)value_at(&run, 0));
    }
    run_end(&run);
    target_end(&target);
}
