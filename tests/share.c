/*
 * Users' shares alone, with a clock that stands until it is moved: who is held, for how long, and
 * in which order. Prints "ok NAME" or "not ok NAME" for each.
 */
#include "fs/share.h"

#include "fs/request.h"

#include <stdio.h>
#include <string.h>

enum {
    ALICE = 1000,
    BOB,
    MS = 1000000
};

static struct fs fs;
static uint64_t now_ns = (uint64_t)1000 * MS;
static uint64_t n_held;
static int n_failures;

static void check(bool good, const char *name)
{
    n_failures += !good;
    printf("%s %s\n", good ? "ok" : "not ok", name);
}

/* What shares call. */
void engine_stat_add(struct engine *engine, enum statistic stat, int64_t n)
{
    (void)engine;
    n_held += stat == STAT_HELD_BACK ? (uint64_t)n : 0;
}

static struct request request_of(uid_t uid, bool is_command)
{
    struct request rq;

    memset(&rq, 0, sizeof rq);
    rq.fs = &fs;
    rq.call.uid = uid;
    rq.patient = true;
    rq.is_command = is_command;
    return rq;
}

/* Runs it if it may, and it takes so long. */
static bool asks(uid_t uid, bool is_command, uint64_t took_ns)
{
    struct request rq = request_of(uid, is_command);
    bool owes = share_owes(&fs.share, &rq, now_ns);

    if (owes)
        return false;
    rq.call.now_ns = now_ns;
    rq.worked_ns = took_ns;
    share_charge(&fs.share, &rq, now_ns);
    return true;
}

static void begin(void)
{
    memset(&fs, 0, sizeof fs);
    share_init(&fs.share, &fs);
    now_ns += (uint64_t)100000 * MS;
}

static void test_alone(void)
{
    bool all = true;

    begin();
    asks(BOB, false, 0);
    now_ns += (uint64_t)101 * MS;
    for (unsigned i = 0; i < 1000; i++)
        all &= asks(ALICE, false, 10 * MS);
    check(all, "who is alone is never held");
    asks(BOB, false, 0);
    check(!asks(ALICE, false, 0), "what was taken alone is owed when somebody else asks");
    now_ns += 51 * MS;
    check(asks(ALICE, false, 0), "for 50 ms at most");
    share_free(&fs.share);
}

static void test_share(void)
{
    unsigned ran = 0;

    begin();
    for (unsigned i = 0; i < 100000; i++) { /* a second */
        now_ns += 10000;
        if (i % 100 == 0)
            asks(BOB, false, 0);
        ran += asks(ALICE, false, 80000); /* and 20,000 for the request */
    }
    check(ran >= 1200 && ran <= 1325, "an eighth of a CPU for who asks all the time");
    check(asks(BOB, false, 0), "who asks little is not held");
    share_free(&fs.share);
}

static void test_lines(void)
{
    struct request lookup = request_of(ALICE, false), command;

    begin();
    asks(BOB, false, 0);
    check(asks(ALICE, true, (uint64_t)500 * MS), "a long command runs");
    asks(BOB, false, 0);
    check(!asks(ALICE, true, 0), "the next one waits");
    check(asks(ALICE, false, 0), "reads go on meanwhile");
    command = request_of(ALICE, true);
    check(share_is_long(&command) && !share_is_long(&lookup), "only commands are held for long");
    asks(ALICE, false, (uint64_t)50 * MS);
    asks(BOB, false, 0);
    lookup.patient = false;
    check(!share_owes(&fs.share, &lookup, now_ns), "what is not patient is not held");
    share_free(&fs.share);
}

static void test_order(void)
{
    struct request first = request_of(ALICE, true), second = first, third = first, bobs;
    int a, b, c;

    begin();
    bobs = request_of(BOB, true);
    first.req = (fuse_req_t)(void *)&a;
    second.req = (fuse_req_t)(void *)&b;
    third.req = (fuse_req_t)(void *)&c;
    asks(BOB, false, 0);
    asks(ALICE, true, (uint64_t)100 * MS);
    share_hold(&fs.share, &first, now_ns);
    share_hold(&fs.share, &second, now_ns);
    share_hold(&fs.share, &third, now_ns);
    check(n_held == 3, "each that is held is counted");
    asks(BOB, false, 0);
    check(share_owes(&fs.share, &third, now_ns), "nobody overtakes who is held");
    now_ns += (uint64_t)101 * MS; /* bob asks no more */
    check(!share_owes(&fs.share, &third, now_ns), "but who is alone, or he would never be let go");
    check(!share_owes(&fs.share, &bobs, now_ns), "others are not in that line");
    check(!share_next(&fs.share, now_ns), "none before its moment");
    check(fs.share.deadline_ns > now_ns && fs.share.deadline_ns != UINT64_MAX, "main is to wake");
    check(share_take(&fs.share, second.req) == &second && !share_take(&fs.share, second.req),
          "one that is interrupted is taken off");
    now_ns = fs.share.deadline_ns;
    check(share_next(&fs.share, now_ns) == &first && !share_next(&fs.share, now_ns),
          "one after the other, each as far away as the last one was long");
    check(share_next(&fs.share, UINT64_MAX) == &third, "at the end all of them");
    check(!share_next(&fs.share, UINT64_MAX) && fs.share.deadline_ns == UINT64_MAX, "then none");
    share_free(&fs.share);
}

/* Nobody's line comes first because it was there first. */
static void test_users(void)
{
    struct request alices = request_of(ALICE, false), bobs = request_of(BOB, false);
    int a, b;

    begin();
    alices.req = (fuse_req_t)(void *)&a;
    bobs.req = (fuse_req_t)(void *)&b;
    asks(ALICE, false, 20 * MS);
    asks(BOB, false, 10 * MS);
    share_hold(&fs.share, &alices, now_ns);
    share_hold(&fs.share, &bobs, now_ns);
    now_ns += 100 * MS;
    check(share_next(&fs.share, now_ns) == &bobs && share_next(&fs.share, now_ns) == &alices,
          "of several users the one whose moment came first");
    share_free(&fs.share);
}

static void test_nobodys(void)
{
    struct request close = request_of(0, false);
    bool alone = true;

    begin();
    close.nobodys = true;
    for (unsigned i = 0; i < 1000; i++) {
        share_owes(&fs.share, &close, now_ns);
        close.worked_ns = 10 * MS;
        share_charge(&fs.share, &close, now_ns);
        alone &= asks(ALICE, false, 10 * MS);
    }
    check(alone, "what is nobody's is no other user");
    check(asks(0, false, 0), "and is not paid by who has that number");
    share_free(&fs.share);
}

/* Once it is parked, and when it is answered. */
static void test_parts(void)
{
    struct request rq = request_of(ALICE, false);

    begin();
    asks(BOB, false, 0);
    rq.call.now_ns = now_ns;
    rq.worked_ns = 8 * MS;
    share_charge(&fs.share, &rq, now_ns);
    check(!asks(ALICE, false, 0), "who is parked has paid, or owes");
    now_ns += 24 * MS + MS;
    asks(BOB, false, 0);
    rq.call.now_ns = now_ns;
    share_charge(&fs.share, &rq, now_ns);
    check(asks(ALICE, false, 0), "nothing is paid twice");
    share_free(&fs.share);
}

/* Two are taken for as long as the one before, for more than the clock has run. */
static void test_reserved(void)
{
    struct request first = request_of(ALICE, true), second = first;
    int a, b;

    begin();
    first.req = (fuse_req_t)(void *)&a;
    second.req = (fuse_req_t)(void *)&b;
    asks(ALICE, true, now_ns);
    share_hold(&fs.share, &first, now_ns);
    share_hold(&fs.share, &second, now_ns);
    share_next(&fs.share, UINT64_MAX);
    share_next(&fs.share, UINT64_MAX);
    first.call.now_ns = second.call.now_ns = now_ns;
    share_charge(&fs.share, &first, now_ns);
    share_charge(&fs.share, &second, now_ns);
    now_ns += (uint64_t)5001 * MS; /* what the first took is */
    asks(BOB, true, 0);
    check(asks(ALICE, true, 0), "what was reserved and not needed is not owed");
    share_free(&fs.share);
}

/* Of a line that is longer than what is owed at most. */
static void test_long_line(void)
{
    struct request many[100], deaf;
    unsigned n = 0, marks[100];

    begin();
    asks(BOB, false, 0);
    asks(ALICE, false, 10 * MS);
    for (unsigned i = 0; i < 100; i++) {
        many[i] = request_of(ALICE, false);
        many[i].req = (fuse_req_t)(void *)&marks[i];
        many[i].hears_interrupt = true;
        share_hold(&fs.share, &many[i], now_ns);
    }
    deaf = request_of(ALICE, false);
    share_hold(&fs.share, &deaf, now_ns);
    for (unsigned ms = 0; ms < 800; ms++) {
        struct request *rq;

        if (ms == 51)
            check(deaf.held_until_ns == 0,
                  "who hears of no signal is held for 50 ms, whoever is before him");
        now_ns += MS;
        while ((rq = share_next(&fs.share, now_ns))) {
            rq->call.now_ns = now_ns;
            rq->worked_ns = 10 * MS;
            rq->held_until_ns = 0;
            share_charge(&fs.share, rq, now_ns);
            n++;
        }
    }
    check(n >= 9 && n <= 12, "each waits for those before him");
    while (share_next(&fs.share, UINT64_MAX))
        ;
    share_free(&fs.share);
}

static void test_limits(void)
{
    struct request rq = request_of(ALICE, true);

    begin();
    asks(BOB, false, 0);
    asks(ALICE, true, (uint64_t)1000000 * MS);
    share_hold(&fs.share, &rq, now_ns);
    check(rq.held_until_ns > now_ns && rq.held_until_ns <= now_ns + (uint64_t)5001 * MS,
          "nobody is held for more than 5 s");
    fs.stopping = true;
    check(!share_owes(&fs.share, &rq, now_ns), "at the end of the mount nobody is held");
    check(share_next(&fs.share, UINT64_MAX) == &rq, "and who was goes on");
    share_free(&fs.share);
}

int main(void)
{
    test_alone();
    test_share();
    test_lines();
    test_order();
    test_users();
    test_nobodys();
    test_parts();
    test_reserved();
    test_long_line();
    test_limits();
    return n_failures > 0;
}
