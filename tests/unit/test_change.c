/*
 * Changes: the table of states, verbs and writes; all or nothing; events between two steps.
 */
#include "tests/unit/unit.h"

#include "core/pmc/pmc.h"
#include "tests/unit/fixture.h"

#include <errno.h>
#include <stdlib.h>

SUITE_SETUP(change, fixture_setup, fixture_close);

/* ---- states and commands ---- */

static const char *const states[] = {"new",     "allocated", "armed", "running",
                                     "stopped", "exited",    "lost"};
enum {
    NEW,
    ALLOCATED,
    ARMED,
    RUNNING,
    STOPPED,
    EXITED,
    LOST,
    N_STATES
};

/* Creates PMC "i" in this state; states with a target have target 100. */
static void make_state(unsigned state)
{
    ck_assert_int_eq(pmc_make("i"), 0);
    if (state == NEW)
        return;
    accepted("i", "event", "cycles");
    if (state == ALLOCATED)
        return;
    if (state == ARMED)
        accepted("i", "config", "start=exec");
    accepted("i", "target", "100");
    if (state == STOPPED)
        accepted("i", "ctl", "stop");
    if (state == EXITED) {
        fake_kill(&fx.host, 100, true);
        works_run();
    }
    if (state == LOST)
        pass_ms(20);
    ck_assert_str_eq(value_of("i", "status", "state"), states[state]);
}

/* 0 and the next state if the command works, else the errno and the error id. */
static const struct row {
    const char *file, *text;
    struct cell {
        int code;
        enum err_id id;
        unsigned after;
    } in[N_STATES];
} matrix[] = {
#define OK(state)                                                                                  \
    {                                                                                              \
        0, ERR_NONE, state                                                                         \
    }
#define NO(code, id)                                                                               \
    {                                                                                              \
        code, id, 0                                                                                \
    }
    {"ctl",
     "start",
     {NO(ENODATA, P08), OK(RUNNING), OK(ARMED), OK(RUNNING), OK(RUNNING), NO(ESRCH, E43),
      OK(RUNNING)}},
    {"ctl",
     "stop",
     {NO(ENODATA, P08), NO(EINVAL, X02), OK(STOPPED), OK(STOPPED), OK(STOPPED), OK(EXITED),
      OK(STOPPED)}},
    {"ctl",
     "reset",
     {NO(ENODATA, P08), OK(ALLOCATED), NO(EBUSY, E06), NO(EBUSY, E06), OK(STOPPED), OK(EXITED),
      NO(EBUSY, E06)}},
    {"ctl",
     "restart",
     {NO(ENODATA, P08), OK(RUNNING), OK(ARMED), OK(RUNNING), OK(RUNNING), NO(ESRCH, E43),
      OK(RUNNING)}},
    {"ctl",
     "flush",
     {NO(ENODATA, P08), OK(ALLOCATED), OK(ARMED), OK(RUNNING), OK(STOPPED), OK(EXITED), OK(LOST)}},
    {"ctl",
     "close",
     {NO(ENODATA, P08), OK(ALLOCATED), OK(ARMED), OK(RUNNING), OK(STOPPED), OK(EXITED), OK(LOST)}},
    {"config",
     "log=off",
     {OK(NEW), OK(ALLOCATED), NO(EBUSY, P06), NO(EBUSY, P06), OK(STOPPED), OK(EXITED),
      NO(EBUSY, P06)}},
    {"ctl",
     "detach",
     {NO(ENODATA, P08), OK(ALLOCATED), OK(EXITED), OK(EXITED), OK(EXITED), OK(EXITED), OK(EXITED)}},
    {"ctl",
     "strat",
     {NO(EINVAL, X17), NO(EINVAL, X17), NO(EINVAL, X17), NO(EINVAL, X17), NO(EINVAL, X17),
      NO(EINVAL, X17), NO(EINVAL, X17)}},
    {"event",
     "instructions",
     {OK(ALLOCATED), OK(ALLOCATED), NO(EBUSY, P06), NO(EBUSY, P06), OK(ALLOCATED), OK(ALLOCATED),
      NO(EBUSY, P06)}},
    {"event",
     "cycles",
     {OK(ALLOCATED), OK(ALLOCATED), OK(ARMED), OK(RUNNING), OK(STOPPED), OK(EXITED), OK(LOST)}},
    {"mode",
     "SC",
     {OK(NEW), OK(ALLOCATED), NO(EBUSY, P06), NO(EBUSY, P06), NO(EBUSY, P17), OK(ALLOCATED),
      NO(EBUSY, P06)}},
    {"mode",
     "TC",
     {OK(NEW), OK(ALLOCATED), OK(ARMED), OK(RUNNING), OK(STOPPED), OK(EXITED), OK(LOST)}},
    {"config",
     "interval=77",
     {OK(NEW), OK(ALLOCATED), NO(EBUSY, P06), NO(EBUSY, P06), OK(STOPPED), OK(EXITED),
      NO(EBUSY, P06)}},
    {"config",
     "user=off",
     {OK(NEW), OK(ALLOCATED), NO(EBUSY, P06), NO(EBUSY, P06), OK(STOPPED), OK(EXITED),
      NO(EBUSY, P06)}},
    {"config",
     "count=9",
     {OK(NEW), OK(ALLOCATED), NO(EBUSY, E07), NO(EBUSY, E07), OK(STOPPED), OK(EXITED),
      NO(EBUSY, E07)}},
    {"count",
     "9",
     {NO(ENODATA, P08), OK(ALLOCATED), NO(EBUSY, E06), NO(EBUSY, E06), OK(STOPPED), OK(EXITED),
      NO(EBUSY, E06)}},
    {"count",
     "x",
     {NO(EINVAL, P02), NO(EINVAL, P02), NO(EINVAL, P02), NO(EINVAL, P02), NO(EINVAL, P02),
      NO(EINVAL, P02), NO(EINVAL, P02)}},
    {"target",
     "101",
     {NO(ENODATA, P08), OK(RUNNING), OK(ARMED), OK(RUNNING), OK(STOPPED), OK(RUNNING),
      OK(RUNNING)}},
    {"target",
     "-100",
     {NO(ENODATA, P08), NO(EINVAL, E28), OK(EXITED), OK(EXITED), OK(EXITED), NO(ESRCH, E45),
      OK(EXITED)}},
    {"target",
     "cpu0",
     {NO(ENODATA, P08), OK(RUNNING), NO(EINVAL, E22), NO(EINVAL, E22), NO(EINVAL, E22), OK(RUNNING),
      NO(EINVAL, E22)}},
};

/* Asserts that the PMC counts if its state `after` is RUNNING or ARMED (the exec of a target of sim
 * comes after 1 ms), and does not in other states. NEW and LOST are not checked. */
static void check_counting(const struct row *row, unsigned state, unsigned after)
{
    if (after == NEW || after == LOST)
        return;
    const uint64_t before = count_of("i");
    pass_ms(5);
    const uint64_t now = count_of("i");
    if (after == RUNNING || after == ARMED)
        ck_assert_msg(now > before, "%s in %s: %s, and does not count", row->text, states[state],
                      states[after]);
    else
        ck_assert_msg(now == before, "%s in %s: %s, and counts", row->text, states[state],
                      states[after]);
}

static void check_cell(const struct row *row, unsigned state)
{
    const struct cell *cell = &row->in[state];

    fixture_close();
    fixture_open("sim_cpus=4 sim_rows=4 sim_lose_after_ms=10");
    make_state(state);
    if (cell->code) {
        refused("i", row->file, row->text, cell->code, cell->id);
        return;
    }
    ck_assert_msg(write_file("i", row->file, row->text) == 0, "%s in %s: %s", row->text,
                  states[state], fx.err.text);
    ck_assert_msg(strcmp(value_of("i", "status", "state"), states[cell->after]) == 0,
                  "%s in %s: %s", row->text, states[state], value_of("i", "status", "state"));
    check_counting(row, state, cell->after);
}

TEST(every_write_in_every_state)
{
    for (unsigned i = 0; i < sizeof matrix / sizeof matrix[0]; i++)
        for (unsigned state = 0; state < N_STATES; state++)
            check_cell(&matrix[i], state);
}

/* ---- order of checks ---- */

TEST(the_first_error_is_reported)
{
    pmc_with("i", "cycles", "100");
    refused("i", "config", "interval=x nonsense", EINVAL, P02); /* syntax first */
    refused("i", "config", "interval=5 target=999", ESRCH,
            E44); /* then named targets are looked up */
    refused("i", "config", "interval=5 target=cpu0", EBUSY, P06); /* then state, before scope */
    accepted("i", "ctl", "stop");
    refused("i", "config", "count=1,2 target=cpu0", EINVAL, P02); /* then settings, before scope */
    refused("i", "config", "mode=SC descendants=on", EBUSY,
            P17); /* mode before the modes of settings */
    refused("i", "config", "user=off kernel=off target=cpu0", EINVAL,
            E22); /* then scope, before rights */
    refused("i", "config", "row=99", EINVAL, P02);
    refused("i", "config", "row=9 target=100 target=101", EINVAL, E19); /* rows last */
}

TEST(start_attaches_the_caller_once)
{
    as_user(100, 1000);
    pmc_with("i", "task-clock", "");
    accepted("i", "ctl", "start");
    ck_assert_str_eq(read_file("i", "target"), "100\n");
    accepted("i", "target", "-self");
    refused("i", "ctl", "start", ESRCH, E43);
    accepted("i", "event", "cycles"); /* a new PMC without a target */
    accepted("i", "ctl", "restart");
    ck_assert_str_eq(read_file("i", "target"), "100\n");
}

TEST(autostart_off_waits_for_start)
{
    ck_assert_int_eq(pmc_make("i"), 0);
    accepted("i", "config", "event=task-clock autostart=off target=100");
    ck_assert_str_eq(read_file("i", "ctl"), "allocated\n");
    pass_ms(1);
    ck_assert_uint_eq(count_of("i"), 0);
    refused("i", "ctl", "stop", EINVAL, X02);
    accepted("i", "config", "autostart=on");
    accepted("i", "target", "101"); /* also starts earlier targets */
    pass_ms(1);
    ck_assert_uint_eq(count_of("i"), 2000000);
    accepted("i", "config", "autostart=on"); /* allowed in any state: no change */
}

TEST(never_started_and_exited_is_not_stopped)
{
    ck_assert_int_eq(pmc_make("i"), 0);
    accepted("i", "config", "event=task-clock autostart=off target=100");
    fake_kill(&fx.host, 100, true);
    works_run();
    ck_assert_str_eq(read_file("i", "ctl"), "exited\n");
    refused("i", "ctl", "stop", EINVAL, X02);
    accepted("i", "target", "101");
    ck_assert_str_eq(read_file("i", "ctl"), "allocated\n");
}

TEST(the_scope_stays_until_a_target_needs_another)
{
    pmc_with("i", "cpu-clock", "cpu0");
    pass_ms(1);
    accepted("i", "target", "-cpu0");
    ck_assert_str_eq(read_file("i", "mode"), "system-counting\n");
    accepted("i", "config", "interval=5");
    ck_assert_str_eq(read_file("i", "mode"), "system-counting\n");
    ck_assert_uint_eq(count_of("i"), 1000000);
    accepted("i", "target", "100"); /* a new mode resets the PMC */
    ck_assert_str_eq(read_file("i", "mode"), "process-counting\n");
    ck_assert_uint_eq(count_of("i"), 0);
    accepted("i", "ctl", "detach");
    accepted("i", "mode", "process-counting");
    refused("i", "target", "cpu0", EINVAL, E22); /* a written mode does not follow the targets */
}

/* ---- rows ---- */

TEST(a_row_is_not_lost_by_a_change_that_fails)
{
    struct held held;

    pmc_with("a", "cycles", "cpu0");
    char *row = strdup(value_of("a", "status", "row"));
    held_write(&held, "a", "target", "cpu1");
    held_run(&held);
    ck_assert_int_eq(held_step(&held), HELD);
    /* another PMC takes all free rows */
    ck_assert_int_eq(pmc_make("b"), 0);
    accepted("b", "config", "event=instructions event=branches event=loads target=cpu0");
    fx.fail[FAIL_ATTACH] = 1;
    ck_assert_int_eq(held_finish(&held), EIO);
    ck_assert_str_eq(value_of("a", "status", "row"), row);
    free(row);
    ck_assert_str_eq(read_file("a", "target"), "cpu0\n");
}

TEST(an_attach_is_refused_if_others_took_the_rows_meanwhile)
{
    struct held held;

    fixture_close();
    fixture_open("sim_cpus=4 sim_rows=2");
    pmc_with("a", "cycles", "");
    pmc_with("b", "cycles", "");
    pmc_with("c", "cycles", "");
    held_write(&held, "a", "target", "100");
    held_run(&held);
    ck_assert_int_eq(held_step(&held), HELD); /* planned, not yet attached */
    accepted("b", "target", "100");
    accepted("c", "target", "100");
    ck_assert_int_eq(held_finish(&held), EBUSY); /* the last attach is refused */
    ck_assert_str_eq(read_file("a", "target"), "");
    ck_assert_str_ne(value_of("b", "status", "row"), value_of("c", "status", "row"));
}

TEST(commands_that_open_together_do_not_exceed_the_quota)
{
    struct held held;

    tune(TUNABLE_MAX_FDS_PER_USER, "2");
    as_user(100, 1000);
    pmc_with("a", "cycles:u", "");
    pmc_with("b", "cycles:u", "");
    held_write(&held, "a", "target", "101");
    held_run(&held);
    ck_assert_int_eq(held_step(&held), HELD);
    held_run(&held); /* the counters are open */
    refused("b", "target", "101 102", EDQUOT, P11);
    ck_assert_int_eq(held_finish(&held), 0);
    ck_assert_uint_eq(user_find(fx.engine, 1000)->used[USED_FDS], 1);
    accepted("b", "target", "102");
}

TEST(a_released_pmc_keeps_its_row_until_it_is_closed)
{
    struct held held;

    fixture_close();
    fixture_open("sim_cpus=4 sim_rows=1");
    pmc_with("a", "cycles", "100");
    pmc_with("b", "cycles", "");
    held_write(&held, "a", "ctl", "stop");
    ck_assert_int_eq(pmc_remove("a"), 0);
    refused("b", "target", "100", EBUSY, E05);
    ck_assert_int_eq(held_finish(&held), ENODEV);
    works_run();
    accepted("b", "target", "100");
}

TEST(a_pmc_with_a_requested_row_is_not_moved)
{
    ck_assert_int_eq(pmc_make("a"), 0);
    ck_assert_int_eq(pmc_make("b"), 0);
    accepted("a", "config", "event=cycles row=2 target=100");
    accepted("b", "config", "event=instructions row=2");
    refused("b", "target", "100", EBUSY, E05);
    accepted("b", "config", "row=any target=100");
    ck_assert_str_eq(value_of("a", "status", "row"), "2");
    ck_assert_str_ne(value_of("b", "status", "row"), "2");
}

/* ---- a failing backend ---- */

TEST(a_failure_of_the_backend_changes_nothing)
{
    static const struct {
        const char *file, *text;
    } commands[] = {
        {"target", "102 103"},  {"event", "instructions page-faults"},           {"ctl", "restart"},
        {"config", "user=off"}, {"config", "event=branches count=3 target=104"}, {"ctl", "start"},
    };
    for (unsigned kind = 0; kind < FAIL_READ; kind++)
        for (unsigned i = 0; i < sizeof commands / sizeof commands[0]; i++)
            for (unsigned n = 1; n < 8; n++) {
                const char *before;

                fixture_close();
                fixture_open(NULL);
                pmc_with("i", "cycles", "100 101");
                pmc_with("j", "cycles instructions", "100");
                pass_ms(3);
                accepted("i", "ctl", "stop");
                before = all_texts();
                fx.fail[kind] = n;
                if (write_file("i", commands[i].file, commands[i].text) == 0)
                    break; /* the operation has fewer calls */
                ck_assert_str_eq(before, all_texts());
                pass_ms(1);
                ck_assert_uint_eq(count_of("i"), 6000000);
            }
}

TEST(a_failing_start_does_not_stop_what_runs)
{
    pmc_with("i", "task-clock", "100");
    pass_ms(1);
    fx.fail[FAIL_START] = 1;
    refused("i", "target", "101", EIO, P14);
    pass_ms(1);
    ck_assert_uint_eq(count_of("i"), 2000000);
}

/* ---- between two steps ---- */

TEST(while_a_change_is_under_way_others_wait_and_readers_see_the_old)
{
    struct held held, other;

    pmc_with("i", "task-clock", "100");
    accepted("i", "ctl", "stop");
    held_write(&held, "i", "event", "cycles");
    ck_assert_int_eq(held.rc, HELD);
    held_run(&held);
    held_write(&other, "i", "ctl", "start");
    ck_assert_int_eq(other.rc, CALL_WAIT);
    ck_assert_uint_eq(other.call.wait_for, held.pmc);
    buf_free(&other.out);
    ck_assert_str_eq(read_file("i", "event"), "task-clock\n");
    ck_assert_str_eq(read_file("i", "ctl"), "stopped\n");
    ck_assert_int_eq(held_finish(&held), 0);
    ck_assert_str_eq(read_file("i", "event"), "cycles\n");
}

/* Removes the PMC before each step of each command. */
TEST(a_release_during_any_step_frees_everything)
{
    static const struct {
        const char *file, *text;
    } commands[] = {
        {"target", "101 102"}, {"event", "instructions"},
        {"ctl", "start"},      {"ctl", "reset"},
        {"count", "5"},        {"config", "lifetime=owner"},
        {"target", "999"},     {"config", "row=60"},
        {"target", "-100"},
    };
    for (unsigned i = 0; i < sizeof commands / sizeof commands[0]; i++)
        for (unsigned at = 0; at < 6; at++) {
            struct held held;

            fixture_close();
            fixture_open(NULL);
            pmc_with("i", "cycles", "100");
            accepted("i", "ctl", "stop");
            held_write(&held, "i", commands[i].file, commands[i].text);
            for (unsigned step = 0; step < at && held.rc == HELD; step++) {
                if (step % 2)
                    held_step(&held);
                else
                    held_run(&held);
            }
            ck_assert_int_eq(pmc_remove("i"), 0);
            ck_assert_int_eq(pmc_make("i"), 0); /* the name is free at once */
            if (at % 2 && held.rc == HELD)
                held_step(&held);
            held_finish(&held);
            works_run();
            ck_assert_uint_eq(fx.host.n_handles, 0);
            pmc_with("j", "cycles instructions branches loads", "cpu0"); /* all rows are free */
        }
}

TEST(a_target_that_exits_during_an_attach_is_left_out)
{
    for (unsigned steps = 0; steps < 5; steps++) {
        struct held held;

        fixture_close();
        fixture_open(NULL);
        pmc_with("i", "task-clock", "");
        held_write(&held, "i", "target", "100 101");
        for (unsigned step = 0; step < steps && held.rc == HELD; step++) {
            if (step % 2)
                held_step(&held);
            else
                held_run(&held);
        }
        fake_kill(&fx.host, 100, true);
        if (steps % 2 && held.rc == HELD)
            held_step(&held);
        ck_assert_int_eq(held_finish(&held), 0);
        works_run();
        pass_ms(1);
        ck_assert_uint_eq(count_of("i"), 1000000);
        ck_assert_str_eq(read_file("i", "target"), "101\n");
    }
}

TEST(the_owners_exit_during_a_change_releases_the_pmc)
{
    struct held held;

    as_user(100, 1000);
    pmc_with("i", "cycles", "");
    accepted("i", "config", "lifetime=owner target=101");
    held_write(&held, "i", "ctl", "stop");
    held_run(&held);
    fake_kill(&fx.host, 100, true);
    ck_assert_ptr_eq(pmc_of("i"), NULL);
    ck_assert_int_eq(held_finish(&held), ENODEV);
    works_run();
    ck_assert_uint_eq(fx.host.n_handles, 0);
}

/* ---- lifetime=owner ---- */

TEST(a_pmc_of_lifetime_owner_is_released_with_its_owner)
{
    as_user(100, 1000);
    pmc_with("i", "cycles", "101");
    refused("i", "config", "lifetime=owner", EBUSY, P06);
    accepted("i", "ctl", "stop");
    pmc_with("j", "instructions", "");
    accepted("i", "config", "lifetime=owner");
    accepted("j", "config", "lifetime=owner");
    accepted("j", "config", "lifetime=mount target=100");
    fake_kill(&fx.host, 100, true);
    works_run();
    ck_assert_ptr_eq(pmc_of("i"), NULL);
    ck_assert_str_eq(read_file("j", "ctl"), "exited\n");
}

TEST(a_pmc_of_lifetime_open_is_released_with_its_descriptor)
{
    struct open_file open, other;

    as_user(100, 1000);
    pmc_with("i", "cycles", "");
    file_open(&open);
    file_open(&other);
    ck_assert_int_eq(write_open(&open, "i", "config", "lifetime=open target=101"), 0);
    ck_assert_int_eq(write_open(&other, "i", "ctl", "stop"), EBUSY);
    ck_assert_int_eq(fx.err.id, P29);
    ck_assert_int_eq(write_file("i", "event", "cycles"), EBUSY);
    ck_assert_int_eq(write_open(&open, "i", "ctl", "stop"), 0);
    file_close(&other);
    ck_assert_ptr_ne(pmc_of("i"), NULL);
    ck_assert_int_eq(write_open(&open, "i", "config", "lifetime=mount"), 0);
    ck_assert_int_eq(write_open(&open, "i", "config", "interval=off lifetime=open"), 0);
    file_close(&open);
    ck_assert_ptr_eq(pmc_of("i"), NULL);
    ck_assert_uint_eq(fx.host.n_handles, 0);
}

TEST(targets_are_detached_without_the_right_to_attach)
{
    pmc_with("i", "cycles:k", "101 102");
    as_user(100, 1000);
    refused("i", "target", "103", EPERM, P18);
    refused("i", "target", "-101 103", EPERM, P18);
    accepted("i", "target", "-101");
    accepted("i", "ctl", "detach");
}

TEST(a_detach_starts_nothing)
{
    ck_assert_int_eq(pmc_make("i"), 0);
    accepted("i", "config", "event=task-clock autostart=off descendants=on target=101 target=102");
    accepted("i", "config", "autostart=on");
    accepted("i", "target", "-102");
    ck_assert_str_eq(read_file("i", "ctl"), "allocated\n");
}

TEST(backends_see_no_odd_bytes)
{
    static const char *const words[] = {"cycles\"",      "cyc\\les",   "'cycles'", "cy\x01cles",
                                        "cycl\xc3\xa9s", "cycles\x7f", "\xff",     "sched:`x`"};

    ck_assert_int_eq(pmc_make("i"), 0);
    fx.fail[FAIL_RESOLVE] = 1;
    for (unsigned i = 0; i < sizeof words / sizeof words[0]; i++)
        refused("i", "event", words[i], EINVAL, CS01);
    refused("i", "config", "event=cycles event=a\"b", EINVAL, CS01);
    ck_true(strstr(fx.err.text, "a\\042b"));
    ck_assert_uint_eq(fx.fail[FAIL_RESOLVE], 1);
}
