#include "fs/requests/hand.h"

#include "core/base/arena.h"
#include "fs/requests/say.h"

#include <errno.h>
#include <linux/fuse.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

#define MAGIC       UINT64_C(0x33646e6168636d70)
#define CRASHES_MAX 3

/* Behind the struct: each seat's buffer, and its answer's. */
#define HEAD_BYTES ((sizeof(struct hand) + 4095) / 4096 * 4096)
#define WHOLE      (HEAD_BYTES + HAND_SEATS * 2 * HAND_BYTES)

static __thread struct seat_hand *seat;
static __thread char *buffer, *answer_bytes;
static __thread struct in_hand *current;
static __thread bool answering; /* what is written is kept */

static char *buffer_of(struct hand *hand, unsigned i)
{
    return (char *)hand + HEAD_BYTES + i * 2 * HAND_BYTES;
}

static struct fuse_in_header *head_of(void *bytes)
{
    return bytes;
}

/* ---- the memory ---- */

static struct hand *hand_map(int fd)
{
    void *map = mmap(NULL, WHOLE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);

    return map == MAP_FAILED ? NULL : map;
}

struct hand *hand_new(int *fd)
{
    struct hand *hand = NULL;

    *fd = memfd_create("pmcfs-requests", MFD_CLOEXEC);
    if (*fd >= 0 && ftruncate(*fd, (off_t)WHOLE) == 0)
        hand = hand_map(*fd);
    if (hand)
        hand->magic = MAGIC;
    else if (*fd >= 0)
        close(*fd);
    return hand;
}

struct hand *hand_open(int fd)
{
    struct stat status;

    if (fstat(fd, &status) < 0)
        return NULL;
    errno = EPROTO;
    struct hand *hand = status.st_size == (off_t)WHOLE ? hand_map(fd) : NULL;
    if (!hand || hand->magic == MAGIC)
        return hand;
    munmap(hand, WHOLE);
    errno = EPROTO;
    return NULL;
}

/* ---- a thread's ---- */

/* A fault inside read(2) would turn the request of a worker that is killed into EIO. */
static void populate(char *begin, size_t bytes)
{
    if (madvise(begin, bytes, MADV_POPULATE_WRITE) == 0) /* from Linux 5.14 */
        return;
    for (size_t at = 0; at < bytes; at += 4096)
        __atomic_fetch_or(begin + at, 0, __ATOMIC_RELAXED);
}

/* A crash is noted even where the thread's own stack is full. Sanitizers have given it one. */
static void stack_give(unsigned i)
{
    static char stacks[HAND_SEATS][64 << 10];
    const stack_t stack = {.ss_sp = stacks[i], .ss_size = sizeof stacks[i]};
    stack_t there;

    if (sigaltstack(NULL, &there) == 0 && there.ss_flags & SS_DISABLE)
        sigaltstack(&stack, NULL);
}

bool hand_sit(struct hand *hand, unsigned i)
{
    if (i >= HAND_SEATS)
        return false;
    stack_give(i);
    populate(buffer_of(hand, i), HAND_BYTES);
    seat = &hand->seats[i];
    buffer = buffer_of(hand, i);
    answer_bytes = buffer + HAND_BYTES;
    return true;
}

void *hand_buffer(void)
{
    if (buffer)
        head_of(buffer)->unique = 0;
    return buffer;
}

static bool interrupted(struct in_hand *request, uint64_t number)
{
    const bool is = hand_number(request) == number;

    if (is)
        request->interrupted = number;
    return is;
}

/* In the order in which a request moves: hand_park() copies the mark of its seat. */
bool hand_interrupt(struct hand *hand, uint64_t number)
{
    bool found = false;

    for (unsigned i = 0; i < HAND_SEATS; i++)
        found |= interrupted(&hand->seats[i].request, number);
    for (unsigned i = 0; i < hand->n_places; i++)
        found |= interrupted(&hand->places[i], number);
    return found;
}

bool hand_interrupted(const struct in_hand *request)
{
    return request->interrupted == request->number;
}

static uint64_t monotonic_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

struct in_hand *hand_begin(struct in_hand *request)
{
    if (!request && buffer) {
        const struct fuse_in_header *head = head_of(buffer);

        request = &seat->request;
        request->bytes = head->len;
        request->crashes = 0;
        request->opens = 0;
        request->since_ns = 0;
        request->number = head->unique;
    }
    if (request && !request->since_ns)
        request->since_ns = monotonic_ns();
    current = request;
    return request;
}

void hand_work(struct in_hand *request)
{
    current = request;
}

struct in_hand *hand_current(void)
{
    return current;
}

uint64_t hand_number(const struct in_hand *request)
{
    return request->number;
}

const void *hand_bytes(const struct in_hand *request)
{
    return request->block ? arena_at(request->block, request->bytes) : buffer;
}

uint64_t hand_poll_number(void)
{
    const struct fuse_in_header *head = current ? hand_bytes(current) : NULL;
    struct fuse_poll_in poll = {0};

    if (head && head->len >= sizeof *head + sizeof poll)
        memcpy(&poll, head + 1, sizeof poll);
    return poll.kh;
}

static struct in_hand *place_take(struct hand *hand)
{
    static _Atomic uint32_t next;

    for (uint32_t n = 0; n < HAND_PLACES; n++) {
        const uint32_t i = next++ % 512 + n / 512 * 512; /* the low ones first */

        if (hand->places[i].taken || atomic_exchange(&hand->places[i].taken, true))
            continue;
        for (uint32_t end = hand->n_places; end <= i;)
            if (atomic_compare_exchange_weak(&hand->n_places, &end, i + 1))
                break;
        return &hand->places[i];
    }
    return NULL;
}

struct in_hand *hand_park(struct hand *hand, struct in_hand *request)
{
    struct in_hand *place;
    uint64_t block;

    if (!request || request->block)
        return request;
    place = place_take(hand);
    block = place ? arena_alloc(request->bytes) : 0;
    if (!block) {
        if (place)
            place->taken = false;
        return NULL;
    }
    const struct seat_hand *from = (const struct seat_hand *)(const void *)request;
    memcpy(arena_at(block, request->bytes), buffer_of(hand, (unsigned)(from - hand->seats)),
           request->bytes);
    place->block = block;
    place->left = false;
    place->bytes = request->bytes;
    place->crashes = request->crashes;
    place->opens = request->opens;
    place->since_ns = request->since_ns;
    place->number = request->number;
    place->interrupted = request->interrupted; /* from now on that of the place is set, too */
    hand_done(request);
    return place;
}

void hand_done(struct in_hand *request)
{
    const uint64_t block = request->block;

    request->number = 0;
    if (request == current)
        current = NULL;
    if (!block) { /* the seat's own */
        if (seat && request == &seat->request)
            head_of(buffer)->unique = 0;
        return;
    }
    request->block = 0;
    arena_free(block, request->bytes);
    request->taken = false;
}

/* ---- open files ---- */

/* True for the next worker from the number on, wherever this one is killed. */
static void count_settle(struct hand *hand, struct in_hand *request)
{
    if (hand->counted.number != request->number)
        return;
    request->opens = hand->counted.opens;
    hand->n_open = hand->counted.n_open;
}

void hand_count(struct hand *hand, struct in_hand *request, int opens)
{
    const int more = opens - request->opens;

    hand->counted.number = 0;
    hand->counted.opens = opens;
    hand->counted.n_open = more > 0 || hand->n_open > 0 ? hand->n_open + (uint64_t)more : 0;
    hand->counted.number = request->number;
    count_settle(hand, request);
}

/* ---- answers ---- */

bool hand_answer_begin(uint64_t number)
{
    if (!seat)
        return false;
    seat->answer.number = 0;
    seat->answer.bytes = 0;
    seat->answer.cut = false;
    answering = number != 0;
    return answering;
}

bool hand_answer_take(const struct iovec *iov, int count)
{
    struct answer *answer;

    if (!answering || ((const struct fuse_out_header *)iov[0].iov_base)->unique == 0)
        return false; /* or a notification */
    answer = &seat->answer;
    for (int i = 0; i < count; i++) {
        if (iov[i].iov_len > HAND_BYTES - answer->bytes) {
            answer->cut = true;
            return true;
        }
        memcpy(answer_bytes + answer->bytes, iov[i].iov_base, iov[i].iov_len);
        answer->bytes += (uint32_t)iov[i].iov_len;
    }
    return true;
}

void hand_answer_end(uint32_t published)
{
    struct fuse_out_header head;

    answering = false;
    memcpy(&head, answer_bytes, sizeof head);
    seat->answer.published = published;
    if (seat->answer.bytes && !seat->answer.cut)
        seat->answer.number = head.unique;
}

static bool reply(int fd, const void *bytes, size_t n)
{
    return write(fd, bytes, n) == (ssize_t)n || errno != ENOENT;
}

bool hand_answer_send(int fd)
{
    return reply(fd, answer_bytes, seat->answer.bytes);
}

/* ---- the next worker ---- */

static bool is_answer_of(const struct hand *hand, uint64_t number, uint32_t published)
{
    for (unsigned i = 0; i < HAND_SEATS; i++)
        if (hand->seats[i].answer.number == number &&
            (int32_t)(published - hand->seats[i].answer.published) >= 0)
            return true;
    return false;
}

bool hand_tell(const struct hand *hand, uint64_t number, int code)
{
    const struct fuse_out_header head = {.len = sizeof head, .error = -code, .unique = number};

    return reply(hand->fuse_fd, &head, sizeof head);
}

/* An open that an earlier worker counted, and did not answer, is none. */
static void refuse(struct hand *hand, struct in_hand *request, int code)
{
    if (hand_tell(hand, request->number, code) && request->opens > 0)
        hand_count(hand, request, 0);
}

/* Is there nothing to be done for it? */
static bool settle(struct hand *hand, struct in_hand *request, uint32_t opcode, uint32_t published)
{
    if (opcode == FUSE_FORGET || opcode == FUSE_BATCH_FORGET || opcode == FUSE_INTERRUPT)
        return true;
    if (is_answer_of(hand, request->number, published))
        return true;
    if (request->crashes < CRASHES_MAX)
        return false;
    say(LOG_CRIT,
        "a request (%u of the kernel's) crashed %u processes in a row: it is answered EIO", opcode,
        request->crashes);
    refuse(hand, request, EIO);
    return true;
}

static void answers_send(struct hand *hand, uint32_t published)
{
    for (unsigned i = 0; i < HAND_SEATS; i++) {
        const struct answer *answer = &hand->seats[i].answer;

        if (answer->number && answer->bytes <= HAND_BYTES &&
            (int32_t)(published - answer->published) >= 0)
            reply(hand->fuse_fd, buffer_of(hand, i) + HAND_BYTES, answer->bytes);
    }
}

static bool has_place(const struct hand *hand, uint64_t number)
{
    for (unsigned i = 0; i < hand->n_places; i++)
        if (hand->places[i].number == number)
            return true;
    return false;
}

/* That of a seat: it was read, and perhaps not more. NULL: there is none. */
static struct in_hand *seat_request(struct hand *hand, unsigned i)
{
    const struct fuse_in_header *head = head_of(buffer_of(hand, i));
    struct in_hand *request = &hand->seats[i].request;

    if (!head->unique || head->len > HAND_BYTES)
        return NULL;
    if (request->number != head->unique) {
        request->crashes = 0;
        request->opens = 0;
        request->since_ns = 0;
    }
    request->number = head->unique;
    request->bytes = head->len;
    request->block = 0;
    count_settle(hand, request);
    return request;
}

static void seat_clear(struct hand *hand, unsigned i)
{
    head_of(buffer_of(hand, i))->unique = 0;
    hand->seats[i].request.number = 0;
}

/* From a seat to a place. */
static void seat_settle(struct hand *hand, unsigned i, uint32_t published)
{
    const struct fuse_in_header *head = head_of(buffer_of(hand, i));
    struct in_hand *request = seat_request(hand, i);

    if (request && head->opcode == FUSE_INTERRUPT)
        hand_interrupt(hand, ((const struct fuse_interrupt_in *)(head + 1))->unique);
    if (request && !settle(hand, request, head->opcode, published) &&
        !has_place(hand, head->unique)) {
        struct in_hand *place = hand_park(hand, request);

        if (place)
            place->left = true;
        else
            refuse(hand, request, ENOMEM);
    }
    seat_clear(hand, i);
}

static void places_settle(struct hand *hand, uint32_t published)
{
    for (unsigned i = 0; i < hand->n_places; i++) {
        struct in_hand *place = &hand->places[i];
        const struct fuse_in_header *head = arena_at(place->block, place->bytes);

        if (!place->number || !head) {
            place->number = place->block = 0;
            place->taken = false;
            continue;
        }
        arena_keep(place->block, place->bytes);
        place->left = true;
        count_settle(hand, place);
        if (settle(hand, place, head->opcode, published)) {
            place->number = place->block = 0; /* its block goes with those that are not kept */
            place->taken = false;
        }
    }
}

void hand_recover(struct hand *hand, uint32_t published)
{
    answers_send(hand, published);
    places_settle(hand, published);
    for (unsigned i = 0; i < HAND_SEATS; i++)
        seat_request(hand, i); /* an interrupt in another seat finds it */
    for (unsigned i = 0; i < HAND_SEATS; i++)
        seat_settle(hand, i, published);
    for (unsigned i = 0; i < HAND_SEATS; i++)
        hand->seats[i].answer.number = 0;
}

struct in_hand *hand_next(struct hand *hand, uint32_t *at)
{
    while (*at < hand->n_places) {
        struct in_hand *place = &hand->places[(*at)++];

        if (place->left && place->number) {
            place->left = false;
            return place;
        }
    }
    return NULL;
}

void hand_give_up(struct hand *hand)
{
    for (unsigned i = 0; i < HAND_SEATS; i++) {
        struct in_hand *request = seat_request(hand, i);

        if (request)
            refuse(hand, request, EIO);
        seat_clear(hand, i);
    }
    for (unsigned i = 0; i < hand->n_places; i++) {
        if (hand->places[i].number) {
            count_settle(hand, &hand->places[i]);
            refuse(hand, &hand->places[i], EIO);
        }
        memset(&hand->places[i], 0, sizeof hand->places[i]);
    }
    for (unsigned i = 0; i < HAND_SEATS; i++)
        hand->seats[i].answer.number = 0;
}
