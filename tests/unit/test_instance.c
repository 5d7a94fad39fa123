/*
 * Instances: creation, limits and visibility inside, release, saving and loading.
 */
#include "tests/unit/unit.h"

#include "core/pmc/pmc.h"
#include "tests/unit/fixture.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

SUITE_SETUP(instance, fixture_setup, fixture_close);

static struct call call_here(const char *file, const char *text)
{
    fx.err = (struct err){.id = ERR_NONE};
    return (struct call){.engine = fx.engine,
                         .instance = fx.engine->root,
                         .rights = fx.rights,
                         .uid = fx.rights->uid,
                         .gid = fx.rights->gid,
                         .file = file,
                         .text = text,
                         .len = text ? strlen(text) : 0};
}

/* Returns a positive errno or 0; *id is the id of the instance. */
static int make(const char *name, uint64_t *id)
{
    struct call call = call_here("mkdir", NULL);
    int rc = engine_mkinstance(&call, name, 0750, id);

    fx.err = call.err;
    return -rc;
}

static uint64_t made(const char *name)
{
    uint64_t id;

    ck_assert_int_eq(make(name, &id), 0);
    return id;
}

static int removed(const char *name)
{
    struct call call = call_here("rmdir", NULL);
    int rc = engine_rminstance(&call, name);

    fx.err = call.err;
    return -rc;
}

static int limit(uint64_t id, const char *file, const char *text)
{
    struct call call = call_here(file, text);

    call.object = id;
    int rc = strcmp(file, "ctl") == 0 ? store_instance_ctl(&call) : store_limit(&call);
    fx.err = call.err;
    return -rc;
}

/* Requests are now made by this user through this instance. */
static void enter(uint64_t id, pid_t tid, uid_t uid)
{
    fx.instance = id;
    as_user(tid, uid);
}

static void leave(void)
{
    fx.instance = 0;
    as_root();
}

TEST(instances_are_bounded_and_ids_are_never_used_again)
{
    char name[16];
    uint64_t id, last = 0;

    for (unsigned i = 0; i < INSTANCES_MAX; i++) {
        snprintf(name, sizeof name, "i%u", i);
        id = made(name);
        ck_assert_uint_gt(id, last);
        last = id;
    }
    ck_assert_int_eq(make("more", &id), ENOSPC);
    ck_assert_int_eq(fx.err.id, P34);
    ck_assert_int_eq(removed("i7"), 0);
    ck_assert_uint_eq(made("i7"), last + 1);
    ck_assert_int_eq(removed("i7"), 0);
    fx.engine->next_instance = INSTANCE_ID_MAX + 1;
    ck_assert_int_eq(make("more", &id), ENOSPC);
}

TEST(logs_are_charged_to_the_instance_too)
{
    uint64_t a = made("a"), b = made("b");

    recorders_on();
    ck_assert_int_eq(limit(a, "max_log", "100000"), 0);
    enter(a, 100, 1000);
    ck_assert_int_eq(pmc_make("x"), 0);
    ck_assert_int_eq(
        write_file("x", "config", "event=cycles period=1000 logsize=1000000 target=101"), EDQUOT);
    ck_err_has(fx.err, "this instance's max_log (100000 bytes");
    enter(b, 100, 1000);
    ck_assert_int_eq(pmc_make("x"), 0);
    accepted("x", "config", "event=cycles period=1000 logsize=1000000 target=101");
    ck_assert_uint_gt(pmc_of("x")->user->instance_account->used[USED_BYTES],
                      65536); /* the usage grows */
    struct user *share = user_ref(pmc_of("x")->user->instance_account);
    ck_assert_int_eq(pmc_remove("x"), 0);
    ck_assert_uint_eq(share->used[USED_BYTES], 0);
    ck_assert_uint_eq(share->used[USED_FDS], 0);
    user_unref(share);
    leave();
}

#define CHARGES 200000u

static void *charges(void *user)
{
    uint64_t *const granted = calloc(1, sizeof *granted);

    for (unsigned i = 0; i < CHARGES; i++)
        *granted += user_charge(user, USED_BYTES, 3) ? 3 : 0;
    return granted;
}

TEST(bytes_are_charged_up_to_the_limit_and_never_beyond_by_any_number_of_threads)
{
    struct user *share = user_of_instance(fx.engine, made("a"));
    struct user *users[2] = {user_get(fx.engine, 1000, share), user_get(fx.engine, 2000, share)};
    pthread_t threads[4];
    uint64_t sum = 0;

    tune(TUNABLE_MAX_LOG_PER_USER, "300000");
    share->limit[USED_BYTES] = 500000;
    for (unsigned i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, charges, users[i % 2]), 0);
    for (unsigned i = 0; i < 4; i++) {
        void *granted;

        pthread_join(threads[i], &granted);
        sum += *(uint64_t *)granted;
        free(granted);
    }
    ck_assert_uint_eq(sum, share->used[USED_BYTES]);
    ck_assert_uint_gt(sum, 500000 - 3);
    ck_assert_uint_le(sum, 500000);
    for (unsigned i = 0; i < 2; i++) {
        ck_assert_uint_le(users[i]->user_account->used[USED_BYTES], 300000);
        ck_assert_uint_eq(users[i]->user_account->used[USED_BYTES], users[i]->used[USED_BYTES]);
    }
    for (unsigned i = 0; i < 2; i++) {
        user_charge_unchecked(users[i], USED_BYTES, -(int64_t)users[i]->used[USED_BYTES]);
        user_unref(users[i]);
    }
    ck_assert_uint_eq(share->used[USED_BYTES], 0);
    user_unref(share);
}

TEST(a_byte_quota_can_be_used_up_exactly)
{
    struct user *user = user_get(fx.engine, 1000, NULL);

    tune(TUNABLE_MAX_LOG_PER_USER, "300000");
    ck_true(user_charge(user, USED_BYTES, 299999));
    ck_true(!user_charge(user, USED_BYTES, 2));
    ck_true(user_charge(user, USED_BYTES, 1));
    ck_true(!user_charge(user, USED_BYTES, 1));
    ck_true(user_charge(user, USED_BYTES, 0));
    ck_assert_uint_eq(user->used[USED_BYTES], 300000);
    user_charge_unchecked(user, USED_BYTES, -300000);
    user_unref(user);
}

TEST(texts_may_exceed_the_quota_of_an_instance_by_a_quarter_and_64_kib)
{
    struct user *share = user_of_instance(fx.engine, made("a"));
    struct user *user = user_get(fx.engine, 1000, share);

    share->limit[USED_BYTES] = 400000;
    ck_true(user_charge(user, USED_BYTES, 400000));
    ck_true(!user_charge(user, USED_BYTES, 1));
    ck_true(user_charge(user, USED_TEXTS, 100000 + 65536));
    ck_true(!user_charge(user, USED_TEXTS, 1));
    ck_assert_uint_eq(share->used[USED_BYTES], 565536);
    user_charge_unchecked(user, USED_TEXTS, -565536);
    user_unref(user);
    user_unref(share);
}

TEST(the_limit_that_keeps_a_log_small_is_named)
{
    uint64_t a = made("a");

    ck_assert_int_eq(limit(a, "max_log", "3000"), 0);
    enter(a, 100, 1000);
    pmc_with("x", "page-faults", "");
    for (unsigned i = 0; i < 400; i++)
        write_file("x", "samples", "a remark that takes some room in the log");
    ck_assert_str_eq(value_of("x", "status", "log_short"), "max_log");
    ck_assert_uint_le(pmc_of("x")->user->instance_account->used[USED_BYTES], 3000);
    leave();
}

TEST(cgroups_are_counted_where_cpus_are)
{
    uint64_t a = made("a");

    fx.host.cgroup[0] = (struct fake_cgroup){"/a", true};
    fx.host.n_cgroups = 1;
    tune(TUNABLE_UNPRIVILEGED_SYSPMCS, "1");
    enter(a, 100, 1000);
    pmc_with("x", "page-faults", "");
    refused("x", "target", "cgroup:/a", EPERM, X07);
    ck_err_has(fx.err, "system_scope");
    refused("x", "target", "cgroup:/none", EPERM, X07);
    leave();
    ck_assert_int_eq(limit(a, "system_scope", "1"), 0);
    enter(a, 100, 1000);
    accepted("x", "target", "cgroup:/a");
    leave();
}

/* CPU 3 goes offline and online. */
static void cpu_flaps(void)
{
    fake_cpu(&fx.host, 3, false);
    works_run();
    fake_cpu(&fx.host, 3, true);
    works_run();
    pass_ms(1);
}

TEST(the_right_to_a_cgroup_is_checked_again_when_a_cpu_returns)
{
    uint64_t a = made("a");
    const struct link *link;

    fx.host.cgroup[0] = (struct fake_cgroup){"/a", true};
    fx.host.n_cgroups = 1;
    ck_assert_int_eq(limit(a, "system_scope", "1"), 0);
    enter(a, 100, 1000);
    pmc_with("x", "cycles", "cgroup:/a");
    link = pmc_of("x")->links->link[0];
    cpu_flaps();
    ck_true(pmc_of("x")->links->link[0] != link);
    link = pmc_of("x")->links->link[0];
    leave();
    ck_assert_int_eq(limit(a, "system_scope", "0"), 0);
    enter(a, 100, 1000);
    cpu_flaps();
    ck_true(pmc_of("x")->links->link[0] == link);
    leave();
}

static void remove_x(void)
{
    fx.host.on_cgroup = NULL;
    ck_assert_int_eq(pmc_remove("x"), 0);
}

TEST(a_pmc_is_released_while_its_cgroup_is_opened)
{
    uint64_t a = made("a");

    fx.host.cgroup[0] = (struct fake_cgroup){"/a", true};
    fx.host.n_cgroups = 1;
    ck_assert_int_eq(limit(a, "system_scope", "1"), 0);
    enter(a, 100, 1000);
    pmc_with("x", "page-faults", "");
    fx.host.on_cgroup = remove_x;
    ck_assert_int_eq(write_file("x", "target", "cgroup:/a"), ENODEV);
    leave();
    ck_assert_int_eq(removed("a"), 0);
}

/* Returns the names that the kernel must forget: PMCs as "1/x " with the id of their instance,
 * instances as "a ", or "vanished a " if they were removed without an rmdir. */
static const char *gone_names(void)
{
    static char text[256];
    struct gone_name gone;
    int n = 0;

    text[0] = '\0';
    while (engine_next_name(fx.engine, &gone))
        if (gone.is_instance)
            n += snprintf(text + n, sizeof text - (size_t)n, "%s%s ",
                          gone.vanished ? "vanished " : "", gone.name);
        else
            n += snprintf(text + n, sizeof text - (size_t)n, "%llu/%s ",
                          (unsigned long long)gone.instance, gone.name);
    return text;
}

TEST(release_removes_everything_and_notifies_the_kernel)
{
    uint64_t a = made("a");

    ck_assert_uint_eq(a, 1);
    enter(a, 100, 1000);
    pmc_with("x", "cycles", "101");
    ck_assert_int_eq(pmc_make("y"), 0);
    leave();
    ck_assert_int_eq(removed("a"), ENOTEMPTY);
    ck_err_has(fx.err, "2 PMCs");
    ck_err_has(fx.err, "release");
    while (*gone_names())
        ;
    ck_assert_int_eq(limit(a, "ctl", "release"), 0);
    ck_assert_str_eq(gone_names(), "1/y 1/x vanished a ");
    works_run();
    ck_assert_uint_eq(fx.engine->pmcs.n, 0);
    ck_assert_uint_eq(fx.host.n_handles, 0);
    ck_assert_uint_eq(fx.engine->fds_used, 0);
    ck_assert_ptr_eq(engine_instance(fx.engine, a), NULL);
    made("b");
    ck_assert_int_eq(removed("b"), 0);
    ck_assert_str_eq(gone_names(), "b ");
}

/* ---- last errors in the journal ---- */

static unsigned error_records(void)
{
    char *text = journal_text();
    unsigned n = 0;

    for (const char *p = text; (p = strstr(p, "@5 ")); p++)
        n++;
    free(text);
    return n;
}

TEST(a_forgotten_error_has_no_record)
{
    struct instance *root = fx.engine->root;

    for (uid_t uid = 1; uid <= 1030; uid++) {
        instance_set_error(root, uid, uid, "EINVAL P27 x: y");
        if (uid == 1020)
            ck_assert_uint_eq(error_records(), 1020);
    }
    ck_assert_str_eq(instance_error(root, 1), "ok");
    ck_assert_str_eq(instance_error(root, 1030), "EINVAL P27 x: y");
    ck_assert_uint_eq(error_records(), 1024);
    engine_reload();
    ck_assert_uint_eq(error_records(), 1024);
}

TEST(the_errors_of_a_released_instance_have_no_records)
{
    uint64_t a = made("a");

    for (uid_t uid = 1; uid <= 3; uid++)
        instance_set_error(engine_instance(fx.engine, a), uid, uid, "EINVAL P27 x: y");
    ck_assert_uint_eq(error_records(), 3);
    ck_assert_int_eq(limit(a, "ctl", "release"), 0);
    ck_assert_uint_eq(error_records(), 0);
}

/* ---- lifetime=namespace ---- */

static uint64_t bound(void)
{
    uint64_t a = made("a");

    ck_assert_int_eq(limit(a, "lifetime", "namespace"), 0);
    fake_find(&fx.host, 201)->outside = true;
    enter(a, 201, 2000);
    ck_assert_int_eq(pmc_make("x"), 0);
    leave();
    return a;
}

TEST(a_binding_is_shared_with_targets_and_survives_them)
{
    uint64_t a = bound(), b;

    pmc_with("r", "page-faults", "200");
    ck_assert_int_eq(pmc_remove("r"), 0);
    ck_assert_uint_eq(fx.host.n_handles, 1);
    b = made("b");
    ck_assert_int_eq(limit(b, "lifetime", "namespace"), 0);
    enter(b, 201, 2000);
    ck_assert_int_eq(pmc_make("x"), 0);
    leave();
    engine_reload();
    ck_assert_uint_eq(fx.host.n_handles, 1);
    ck_assert_int_eq(limit(b, "lifetime", "mount"), 0);
    fake_kill(&fx.host, FAKE_FIRST, true);
    works_run();
    ck_assert_ptr_null(engine_instance(fx.engine, a));
    ck_assert_ptr_nonnull(engine_instance(fx.engine, b));
    ck_assert_uint_eq(fx.host.n_handles, 0);
}

TEST(lifetime_namespace_never_binds_to_the_namespace_of_pmcfs)
{
    uint64_t a = made("a");

    ck_assert_int_eq(limit(a, "lifetime", "namespace"), 0);
    enter(a, 100, 1000);
    ck_assert_int_eq(pmc_make("x"), 0);
    ck_assert_ptr_null(engine_instance(fx.engine, a)->holder);
    leave();
}

TEST(with_lifetime_namespace_a_caller_of_unknown_namespace_is_refused)
{
    uint64_t a = made("a");

    ck_assert_int_eq(limit(a, "lifetime", "namespace"), 0);
    enter(a, 0, 1000);
    ck_assert_int_eq(pmc_make("y"), EPERM);
    ck_assert_int_eq(fx.err.id, P15);
    leave();
}

/* ---- saving and loading ---- */

TEST(a_state_that_does_not_fit_is_refused)
{
    static const char *const bad[] = {
        "@4 5\nnamed\ninstance=3\nname=a\n",
        "@3 0\nnamed\nname=a\n",
        "@3 1\nnamed\nname=a\ninstance\n@3 2\nnamed\nname=a\ninstance\n",
    };

    made("a");
    for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const char *state = bad[i];
        struct err err = {0};

        fixture_close();
        fixture_setup();
        engine_recreate();
        ck_assert_int_eq(journal_load(state, strlen(state), &err), -EINVAL);
        ck_err_has(err, "kind ");
        as_root();
    }
}
