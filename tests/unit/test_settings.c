/*
 * Every key of config: accepted and refused values, and its text.
 */
#include "tests/unit/unit.h"

#include "core/pmc/settings.h"
#include "tests/unit/fixture.h"

#include <errno.h>
#include <stdio.h>

SUITE_SETUP(settings, fixture_setup, fixture_close);

/* Keys in process-counting: the written text, and the text read (NULL: not compared). */
static const struct {
    const char *key, *written, *shown;
} good[] = {
    {"autostart", "off", "off"},
    {"autostart", "1", "on"},
    {"start", "exec", "exec"},
    {"start", "now", "now"},
    {"count", "5", "5"},
    {"count", "0x10", "16"},
    {"count", "0", "0"},
    {"count", "18446744073709551615", "18446744073709551615"},
    {"user", "off", "off"},
    {"user", "yes", "on"},
    {"kernel", "off", "off"},
    {"descendants", "on", "on"},
    {"descendants", "off", "off"},
    {"multiplex", "on", "on"},
    {"multiplex", "off", "off"},
    {"row", "3", "3"},
    {"row", "any", "any"},
    {"interval", "1000", "1000"},
    {"interval", "off", "off"},
    {"log", "off", "off"},
    {"logsize", "65536", "65536"},
    {"notify", "7", "7"},
    {"notify", "off", "off"},
    {"log-csw", "off", "off"},
    {"log_exit", "off", NULL},
    {"log-csw", "on", "on"},
    {"log-csw", "off", "off"},
    {"log-exit", "on", "on"},
    {"log-exit", "off", "off"},
    {"period", "5000", "5000"},
    {"kgmon", "off", NULL},
    {"force", "off", NULL},
    {"period", "off", "off"},
    {"freq", "99", "99"},
    {"freq", "off", "off"},
    {"callchain", "no", "off"},
    {"depth", "default", "default"},
    {"lifetime", "mount", NULL},
    {"AUTOSTART", "off", NULL},
};

TEST(every_key_takes_its_values_and_shows_them)
{
    ck_assert_int_eq(pmc_make("i"), 0);
    for (unsigned i = 0; i < sizeof good / sizeof good[0]; i++) {
        char text[100];

        snprintf(text, sizeof text, "%s=%s", good[i].key, good[i].written);
        accepted("i", "config", text);
        if (good[i].shown)
            ck_assert_str_eq(value_of("i", "config", good[i].key), good[i].shown);
    }
}

static const struct {
    const char *text;
    int code;
    enum err_id id;
    const char *part;
} bad[] = {
    {"autostart=maybe", EINVAL, P02, "maybe"},
    {"start=later", EINVAL, P02, "now, exec"},
    {"count=-1", EINVAL, P02, "-1"},
    {"count=1,,2", EINVAL, P02, "count"},
    {"count=18446744073709551616", EINVAL, P02, "2^64"},
    {"count=", EINVAL, P02, "no value"},
    {"period=0", EINVAL, P02, "give events as a plain number, 1 to"},
    {"freq=0", EINVAL, P02, "samples per second"},
    {"freq=1000000001", EINVAL, P02, "1000000000"},
    {"user=2", EINVAL, P02, "on, off"},
    {"callchain=deep", EINVAL, P02, "off, on, user, kernel"},
    {"depth=0", EINVAL, P02, "512"},
    {"depth=513", EINVAL, P02, "512"},
    {"row=64", EINVAL, P02, "63"},
    {"row=-1", EINVAL, P02, "63"},
    {"interval=0", EINVAL, P02, "off"},
    {"logsize=1", EINVAL, P02, "4096"},
    {"notify=0", EINVAL, P02, "off"},
    {"lifetime=ever", EINVAL, P02, "mount, owner, open"},
    {"kgmon=on", EOPNOTSUPP, P09, "kgmon"},
    {"force=1", EOPNOTSUPP, P09, "force"},
    {"kgmon=maybe", EINVAL, P02, "off"},
    {"mode=tc2", EINVAL, E20, "tc2"},
    {"colour=red", EINVAL, E24, "colour"},
    {"autostrat=on", EINVAL, E24, "autostart"},
    {"interval=1s", EINVAL, P02,
     "give milliseconds as a plain number, 1 to 86400000 (1 s is 1000), or \"off\""},
    {"logsize=1G", EINVAL, P02, "give bytes as a plain number, 4096 to"},
    {"freq=99hz", EINVAL, P02, "give samples per second as a plain number, 1 to 1000000000"},
    {"frequency=99", EINVAL, E24, "no setting \"frequency\": write freq=N"},
    {"sample_period=99", EINVAL, E24, "write period=N"},
    {"pid=1", EINVAL, E24, "no setting \"pid\": write target=PID"},
    {"cgroup=/a", EINVAL, E24, "write target=cgroup:/PATH"},
    {"enable=1", EINVAL, E24, "write start to ctl"},
    {"disable=1", EINVAL, E24, "write stop to ctl"},
    {"exclude-kernel=1", EINVAL, E24, "write kernel=off"},
    {"duration=5", EINVAL, E24, "until \"stop\" is written to ctl"},
    {"event=branches OR cycles", EINVAL, P01, "settings are written key=value"},
    {"event=OR", EINVAL, CS01, "write one of them"},
    {"event=-e", EINVAL, CS01, "\"-e\": perf's options are not used here"},
    {"event=#", EINVAL, CS01, "a comment starts after a blank"},
    {"event={cycles", EINVAL, CS01, "no closing brace"},
    {"event=cycles,{loads}", EINVAL, CS01, "braces enclose one set"},
    {"event={cycles},loads", EINVAL, CS01, "more than one set"},
    {"event={cycles}:u,loads", EINVAL, CS01, "more than one set"},
    {"event={}", EINVAL, CS01, "event"},
    {"interval", EINVAL, P01, "interval"},
    {"=5", EINVAL, P01, "key=value"},
    {"mode=process-counting period=5", EINVAL, P07, "period"},
    {"mode=TC callchain=on", EINVAL, P07, "callchain"},
    {"mode=SC descendants=on", EINVAL, X05, "descendants"},
    {"mode=SC log-csw=on", EINVAL, X05, "log-csw"},
    {"mode=SC log_exit=on", EINVAL, X05, "log-exit"},
    {"mode=SC start=exec", EINVAL, X05, "start"},
    {"period=1000 freq=99", EINVAL, P07, "cannot both be set"},
    {"event=nonsense", EINVAL, CS01, "nonsense"},
    {"event=", EINVAL, P02, "event"},
    {"target=x7", EINVAL, E27, "x7"},
    {"event=cycles count=1,2", EINVAL, P02, "2 values"},
    {"event=cycles user=off kernel=off", EINVAL, P07, "nothing"},
    {"event=page-faults user=off kernel=off", EINVAL, P07, "nothing"},
    {"event=task-clock kernel=off user=off", EINVAL, P07, "nothing"},
    {"event=cycles row=9", EINVAL, E19, "row"},
    {"interval=5 user=on nonsense=1", EINVAL, E24, "nonsense"},
};

TEST(a_refused_value_of_a_key_changes_nothing)
{
    pmc_with("other", "instructions", "100");
    ck_assert_int_eq(pmc_make("i"), 0);
    for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        refused("i", "config", bad[i].text, bad[i].code, bad[i].id);
        ck_err_has(fx.err, bad[i].part);
    }
    accepted("i", "event", "cycles");
    for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++)
        refused("i", "config", bad[i].text, bad[i].code, bad[i].id);
}

TEST(settings_print_what_settings_set_reads)
{
    struct settings a, b;
    struct buf text;

    settings_init(&a);
    settings_init(&b);
    for (unsigned key = 0; key < KEYS; key++) {
        struct err err;

        if (key == KEY_EVENT || key == KEY_TARGET)
            continue;
        text = (struct buf){0};
        settings_print(&a, (enum key)key, 0, &text);
        ck_assert_int_eq(settings_set(&b, (enum key)key, unit_word(buf_text(&text)), &err), 0);
        ck_true(settings_same(&a, &b, (enum key)key));
        buf_free(&text);
    }
    settings_clear(&a);
    settings_clear(&b);
}

TEST(words_mean_their_place_in_the_table)
{
    static const struct {
        enum key key;
        const char *word;
        uint64_t value;
    } words[] = {
        {KEY_START, "now", 0},
        {KEY_START, "Exec", 1},
        {KEY_CALLCHAIN, "off", CALLCHAIN_OFF},
        {KEY_CALLCHAIN, "on", CALLCHAIN_ON},
        {KEY_CALLCHAIN, "user", CALLCHAIN_USER},
        {KEY_CALLCHAIN, "kernel", CALLCHAIN_KERNEL},
        {KEY_METRICS, "sum", METRICS_SUM},
        {KEY_METRICS, "cpu", METRICS_CPU},
        {KEY_LIFETIME, "mount", LIFETIME_MOUNT},
        {KEY_LIFETIME, "owner", LIFETIME_OWNER},
        {KEY_LIFETIME, "open", LIFETIME_OPEN},
    };
    struct settings settings;
    struct buf out;

    settings_init(&settings);
    for (unsigned i = 0; i < sizeof words / sizeof words[0]; i++) {
        struct word word = {words[i].word, strlen(words[i].word)};
        struct err err = {0};

        ck_assert_int_eq(settings_set(&settings, words[i].key, word, &err), 0);
        ck_assert_uint_eq(settings.word[words[i].key], words[i].value);
        out = (struct buf){0};
        settings_print(&settings, words[i].key, 0, &out);
        ck_true(word_alike(word, buf_text(&out), false));
        buf_free(&out);
        word.len--; /* part of a word is not a word */
        ck_assert_int_eq(settings_set(&settings, words[i].key, word, &err), -EINVAL);
    }
    settings_clear(&settings);
}

TEST(an_invalid_mode_is_refused_with_the_list_of_modes)
{
    struct word word = {"what", 4};
    struct settings settings;
    struct err err = {0};
    struct buf names = {0};

    settings_init(&settings);
    ck_assert_int_eq(settings_set(&settings, KEY_MODE, word, &err), -EINVAL);
    for (unsigned i = 0; i < MODE_COUNT; i++) {
        buf_printf(&names, "%s%s", i ? ", " : "", mode_table[i].name);
        ck_err_has(err, mode_table[i].name);
        ck_err_has(err, mode_table[i].short_name);
    }
    ck_assert_str_eq(key_table[KEY_MODE].values, buf_text(&names));
    buf_free(&names);
}
