/*
 * Cgroups: names, paths that try to escape, removal.
 */
#include "tests/host_test.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char group_name[64], group_path[256];

static bool cgroup_base(void)
{
    char *text = proc_text("/proc/self/mountinfo");
    char *line = text ? strstr(text, " - cgroup2 ") : NULL;
    char mount[128] = "";
    while (line && line > text && line[-1] != '\n')
        line--;
    bool found = line && sscanf(line, "%*s %*s %*s / %127s", mount) == 1;
    snprintf(group_name, sizeof group_name, "/pmcfs-test-%d", getpid());
    snprintf(group_path, sizeof group_path, "%s%s", mount, group_name);
    free(text);
    return found && mkdir(group_path, 0755) == 0;
}

/* Opens a cgroup for the requester tid. Returns the error id, or ERR_NONE: then *key is the key of
 * the cgroup, or 0 if its normalized path is not `name`. */
static enum err_id group_open(pid_t tid, const char *path, uint64_t *key, const char *name)
{
    int fd;
    char *normal;
    err = (struct err){0};
    *key = 0;
    if (host->cgroup_open(state, tid, path, &fd, &normal, &err) < 0)
        return err.id;
    *key = strcmp(normal, name) == 0 ? host->cgroup_key(fd) : 0;
    free(normal);
    close(fd);
    return ERR_NONE;
}

static int namespace_member(void *arg)
{
    (void)arg;
    char path[320];
    snprintf(path, sizeof path, "%s/a/cgroup.procs", group_path);
    text_write(path, "0");
    unshare(CLONE_NEWCGROUP);
    notes[GROUP_READY] = 1;
    return sleeper(NULL);
}

static void test_group_namespace(uint64_t key_a, uint64_t key_b)
{
    char path[320], number[16];
    uint64_t key;
    notes[GROUP_READY] = 0;
    pid_t pid = spawn(0, namespace_member, NULL);
    note_wait(GROUP_READY);
    char *own_before = proc_text("/proc/thread-self/cgroup");
    check(group_open(pid, "/", &key, "/") == ERR_NONE && key == key_a &&
              group_open(pid, "b", &key, "/b") == ERR_NONE && key == key_b &&
              group_open(pid, group_name, &key, "") == P33,
          "named from a cgroup namespace");
    enum err_id id = P10;
    for (unsigned n = 3; id == P10 && n < 1000; n++) {
        descriptors_limit(n);
        id = group_open(pid, "b", &key, "/b");
        descriptors_limit(0);
    }
    check(id == ERR_NONE, "found from a namespace, or refused for lack of descriptors");
    snprintf(number, sizeof number, "%d", pid);
    snprintf(path, sizeof path, "%s/a/b/cgroup.procs", group_path);
    text_write(path, number);
    check(group_open(pid, "/", &key, "/") == ERR_NONE && key == key_a, "and from below its root");
    snprintf(path, sizeof path, "%s/cgroup.procs", group_path);
    text_write(path, number);
    check(group_open(pid, "/", &key, "/") == ERR_NONE && key == key_a,
          "and from outside: the root stays where it was");
    char *own_after = proc_text("/proc/thread-self/cgroup");
    check(strcmp(own_before, own_after) == 0, "our own cgroup namespace is restored");
    free(own_before);
    free(own_after);
    reap(pid);
}

void test_groups(void)
{
    uint64_t key, key_a, key_b;
    char path[320], name[128];
    int fd;
    char *normal = NULL;
    if (!cgroup_base()) {
        check(group_open(getpid(), "/", &key, "/") == P09, "no cgroup v2 here");
        return;
    }
    snprintf(path, sizeof path, "%s/a", group_path);
    mkdir(path, 0755);
    snprintf(path, sizeof path, "%s/a/b", group_path);
    mkdir(path, 0755);
    snprintf(name, sizeof name, "%s/a", group_name);
    snprintf(path, sizeof path, "/.%s//./a/", group_name);
    check(group_open(getpid(), path, &key_a, name) == ERR_NONE && key_a &&
              group_open(getpid(), name, &key, name) == ERR_NONE && key == key_a,
          "a cgroup by its path");
    snprintf(name, sizeof name, "%s/a/b", group_name);
    check(group_open(getpid(), name, &key_b, name) == ERR_NONE && key_b && key_b != key_a &&
              group_open(getpid(), "", &key, "/") == ERR_NONE && key && key != key_b,
          "its child, the root");
    snprintf(path, sizeof path, "%s/../..", group_name);
    check(group_open(getpid(), path, &key, "") == P33 &&
              group_open(getpid(), "/..", &key, "") == P33 &&
              group_open(getpid(), "/none", &key, "") == P33 &&
              group_open(getpid(), "/cgroup.procs", &key, "") == P33 &&
              group_open(0, "/", &key, "") == P15,
          "escapes, absent ones, files, the unseen");
    test_group_namespace(key_a, key_b);
    enum err_id id = P10;
    for (unsigned n = 3; id == P10 && n < 1000; n++) {
        descriptors_limit(n);
        id = group_open(getpid(), name, &key, name);
        descriptors_limit(0);
    }
    check(id == ERR_NONE, "found, or refused for lack of descriptors");

    host->cgroup_open(state, getpid(), name, &fd, &normal, &err);
    bool alive = host->cgroup_alive(fd);
    snprintf(path, sizeof path, "%s/a/b", group_path);
    for (int i = 0; i < 6000 && rmdir(path) < 0; i++)
        nap_ms(10);
    check(alive && !host->cgroup_alive(fd), "a removed cgroup is not alive");
    close(fd);
    free(normal);
    snprintf(path, sizeof path, "%s/a", group_path);
    rmdir(path);
    for (int i = 0; i < 6000 && rmdir(group_path) < 0; i++)
        nap_ms(10);
}
