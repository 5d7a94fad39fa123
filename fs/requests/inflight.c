#include "fs/requests/inflight.h"

#include "core/base/arena.h"
#include "core/base/clock.h"
#include "fs/requests/message.h"

#include <errno.h>
#include <linux/fuse.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <syslog.h>
#include <unistd.h>

#define MAGIC       UINT64_C(0x33646e6168636d70)
#define CRASHES_MAX 3

/* The bytes of all buffers, of the request and then of the answer, follow the struct. */
#define HEAD_BYTES  ((sizeof(struct inflight) + 4095) / 4096 * 4096)
#define TOTAL_BYTES (HEAD_BYTES + INFLIGHT_BUFFERS * 2 * INFLIGHT_BYTES)

static __thread struct inflight_buffer *own;
static __thread struct fuse_in_header *buffer; /* the request, with its header */
static __thread char *answer_bytes;
static __thread struct inflight_request *current;
static __thread bool answering; /* replies are stored, not sent */

/* Returns the bytes of the request in a buffer. The bytes of its answer follow. */
static void *buffer_of(struct inflight *inflight, unsigned i)
{
    return (char *)inflight + HEAD_BYTES + i * 2 * INFLIGHT_BYTES;
}

/* ---- the memory ---- */

static struct inflight *inflight_map(int fd)
{
    void *map = mmap(NULL, TOTAL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);

    return map == MAP_FAILED ? NULL : map;
}

struct inflight *inflight_new(int *fd)
{
    struct inflight *inflight = NULL;

    *fd = memfd_create("pmcfs-requests", MFD_CLOEXEC);
    if (*fd >= 0 && ftruncate(*fd, (off_t)TOTAL_BYTES) == 0)
        inflight = inflight_map(*fd);
    if (inflight)
        inflight->magic = MAGIC;
    else if (*fd >= 0)
        close(*fd);
    return inflight;
}

struct inflight *inflight_open(int fd)
{
    struct stat status;

    if (fstat(fd, &status) < 0)
        return NULL;
    errno = EPROTO;
    struct inflight *inflight = status.st_size == (off_t)TOTAL_BYTES ? inflight_map(fd) : NULL;
    if (!inflight || inflight->magic == MAGIC)
        return inflight;
    munmap(inflight, TOTAL_BYTES);
    errno = EPROTO;
    return NULL;
}

/* ---- in a serving thread ---- */

bool inflight_take_buffer(struct inflight *inflight, unsigned i)
{
    static char stacks[INFLIGHT_BUFFERS][64 << 10];
    stack_t stack, there;

    if (i >= INFLIGHT_BUFFERS)
        return false;
    /* A signal stack, so that a stack overflow is recorded too. Sanitizers set their own. */
    stack = (stack_t){.ss_sp = stacks[i], .ss_size = sizeof stacks[i]};
    if (sigaltstack(NULL, &there) == 0 && there.ss_flags & SS_DISABLE)
        sigaltstack(&stack, NULL);
    own = &inflight->buffers[i];
    buffer = buffer_of(inflight, i);
    /* Populate: a worker killed in a page fault of read(2) loses its request, which gives EIO. */
    if (madvise(buffer, INFLIGHT_BYTES, MADV_POPULATE_WRITE) < 0) /* from Linux 5.14 */
        for (size_t at = 0; at < INFLIGHT_BYTES; at += 4096)
            __atomic_fetch_or((char *)buffer + at, 0, __ATOMIC_RELAXED);
    answer_bytes = (char *)buffer + INFLIGHT_BYTES;
    return true;
}

void *inflight_buffer(void)
{
    if (buffer)
        buffer->unique = 0;
    return buffer;
}

/* Buffers, then places: inflight_move_to_place() moves a request and its mark in this order. */
bool inflight_interrupt(struct inflight *inflight, uint64_t number)
{
    bool found = false;

    for (unsigned i = 0; i < INFLIGHT_BUFFERS + inflight->n_places; i++) {
        struct inflight_request *request = i < INFLIGHT_BUFFERS
                                               ? &inflight->buffers[i].request
                                               : &inflight->places[i - INFLIGHT_BUFFERS];

        if (request->number != number)
            continue;
        request->interrupted = number;
        found = true;
    }
    return found;
}

bool inflight_interrupted(const struct inflight_request *request)
{
    return request->interrupted == request->number;
}

struct inflight_request *inflight_begin(struct inflight_request *request)
{
    if (!request && buffer) {
        request = &own->request;
        request->bytes = buffer->len;
        request->crashes = 0;
        request->open_change = 0;
        request->since_ns = 0;
        request->number = buffer->unique;
    }
    if (request && !request->since_ns)
        request->since_ns = monotonic_ns();
    current = request;
    return request;
}

void inflight_set_current(struct inflight_request *request)
{
    current = request;
}

struct inflight_request *inflight_current(void)
{
    return current;
}

const void *inflight_message(const struct inflight_request *request)
{
    return request->block ? arena_at(request->block, request->bytes) : buffer;
}

static struct inflight_request *place_take(struct inflight *inflight)
{
    static _Atomic uint32_t next;

    for (uint32_t n = 0; n < INFLIGHT_PLACES; n++) {
        const uint32_t i = next++ % 512 + n / 512 * 512; /* low numbers first */

        if (inflight->places[i].taken || atomic_exchange(&inflight->places[i].taken, true))
            continue;
        for (uint32_t end = inflight->n_places; end <= i;)
            if (atomic_compare_exchange_weak(&inflight->n_places, &end, i + 1))
                break;
        return &inflight->places[i];
    }
    return NULL;
}

struct inflight_request *inflight_move_to_place(struct inflight *inflight,
                                                struct inflight_request *request)
{
    if (!request || request->block)
        return request;
    struct inflight_request *place = place_take(inflight);
    uint64_t block = place ? arena_alloc(request->bytes) : 0;
    if (!block) {
        if (place)
            place->taken = false;
        return NULL;
    }
    const struct inflight_buffer *from = (const struct inflight_buffer *)(const void *)request;
    memcpy(arena_at(block, request->bytes),
           buffer_of(inflight, (unsigned)(from - inflight->buffers)), request->bytes);
    place->block = block;
    place->inherited = false;
    place->bytes = request->bytes;
    place->crashes = request->crashes;
    place->open_change = request->open_change;
    place->since_ns = request->since_ns;
    place->number = request->number;
    place->interrupted = request->interrupted; /* later interrupts also mark the place */
    inflight_done(request);
    return place;
}

void inflight_done(struct inflight_request *request)
{
    const uint64_t block = request->block;

    request->number = 0;
    if (request == current)
        current = NULL;
    if (!block) { /* in the buffer */
        if (own && request == &own->request)
            buffer->unique = 0;
        return;
    }
    request->block = 0;
    arena_free(block, request->bytes);
    request->taken = false;
}

/* ---- open files ---- */

/* Applies the last change of inflight_set_open_change(), if it is of this request. A later worker
 * repeats it if this one was killed after setting the number. */
static void open_change_apply(struct inflight *inflight, struct inflight_request *request)
{
    if (inflight->last_open_change.number != request->number)
        return;
    request->open_change = inflight->last_open_change.change;
    inflight->n_open = inflight->last_open_change.n_open;
}

void inflight_set_open_change(struct inflight *inflight, struct inflight_request *request,
                              int change)
{
    const int more = change - request->open_change;

    inflight->last_open_change.number = 0;
    inflight->last_open_change.change = change;
    inflight->last_open_change.n_open =
        more > 0 || inflight->n_open > 0 ? inflight->n_open + (uint64_t)more : 0;
    inflight->last_open_change.number = request->number;
    open_change_apply(inflight, request);
}

/* ---- answers ---- */

bool inflight_answer_begin(uint64_t number)
{
    if (!own)
        return false;
    own->answer.number = 0;
    own->answer.bytes = 0;
    own->answer.cut = false;
    answering = number != 0;
    return answering;
}

bool inflight_answer_store(const struct iovec *iov, int count)
{
    if (!answering || ((const struct fuse_out_header *)iov[0].iov_base)->unique == 0)
        return false; /* unique 0: a notification */
    struct answer *answer = &own->answer;
    for (int i = 0; i < count; i++) {
        if (iov[i].iov_len > INFLIGHT_BYTES - answer->bytes) {
            answer->cut = true;
            return true;
        }
        memcpy(answer_bytes + answer->bytes, iov[i].iov_base, iov[i].iov_len);
        answer->bytes += (uint32_t)iov[i].iov_len;
    }
    return true;
}

void inflight_answer_end(uint32_t publication)
{
    struct fuse_out_header head;

    answering = false;
    memcpy(&head, answer_bytes, sizeof head);
    own->answer.publication = publication;
    if (own->answer.bytes && !own->answer.cut)
        own->answer.number = head.unique;
}

static bool reply(int fd, const void *bytes, size_t n)
{
    return write(fd, bytes, n) == (ssize_t)n || errno != ENOENT;
}

bool inflight_answer_send(int fd)
{
    return reply(fd, answer_bytes, own->answer.bytes);
}

/* ---- the next worker ---- */

bool inflight_reply(const struct inflight *inflight, uint64_t number, int code)
{
    const struct fuse_out_header head = {.len = sizeof head, .error = -code, .unique = number};

    return reply(inflight->fuse_fd, &head, sizeof head);
}

/* Refuses a request. An open that was counted but not answered is no longer counted. */
static void refuse(struct inflight *inflight, struct inflight_request *request, int code)
{
    if (inflight_reply(inflight, request->number, code) && request->open_change > 0)
        inflight_set_open_change(inflight, request, 0);
}

/* Returns true if the request needs no further processing: it is a FORGET or INTERRUPT, was
 * answered, or is refused now. */
static bool is_over_or_refused(struct inflight *inflight, struct inflight_request *request,
                               uint32_t opcode, uint32_t published)
{
    if (opcode == FUSE_FORGET || opcode == FUSE_BATCH_FORGET || opcode == FUSE_INTERRUPT)
        return true;
    for (unsigned i = 0; i < INFLIGHT_BUFFERS; i++)
        if (inflight->buffers[i].answer.number == request->number &&
            (int32_t)(published - inflight->buffers[i].answer.publication) >= 0)
            return true;
    if (request->crashes < CRASHES_MAX)
        return false;
    message_log(LOG_CRIT, "a request (opcode %u) crashed %u processes in a row: it gets EIO",
                opcode, request->crashes);
    refuse(inflight, request, EIO);
    return true;
}

/* Returns the request in a buffer, which was read but may not have been started, or NULL. Sets its
 * members from the message in the buffer. */
static struct inflight_request *buffer_request(struct inflight *inflight, unsigned i)
{
    const struct fuse_in_header *head = buffer_of(inflight, i);
    struct inflight_request *request = &inflight->buffers[i].request;

    if (!head->unique || head->len > INFLIGHT_BYTES)
        return NULL;
    if (request->number != head->unique) {
        request->crashes = 0;
        request->open_change = 0;
        request->since_ns = 0;
    }
    request->number = head->unique;
    request->bytes = head->len;
    request->block = 0;
    open_change_apply(inflight, request);
    return request;
}

static void buffer_clear(struct inflight *inflight, unsigned i)
{
    struct fuse_in_header *head = buffer_of(inflight, i);

    head->unique = 0;
    inflight->buffers[i].request.number = 0;
}

void inflight_recover(struct inflight *inflight, uint32_t published)
{
    for (unsigned i = 0; i < INFLIGHT_BUFFERS; i++) {
        const struct answer *answer = &inflight->buffers[i].answer;

        if (answer->number && answer->bytes <= INFLIGHT_BYTES &&
            (int32_t)(published - answer->publication) >= 0)
            reply(inflight->fuse_fd, (char *)buffer_of(inflight, i) + INFLIGHT_BYTES,
                  answer->bytes);
    }
    for (unsigned i = 0; i < inflight->n_places; i++) {
        struct inflight_request *place = &inflight->places[i];
        const struct fuse_in_header *head = arena_at(place->block, place->bytes);

        if (place->number && head) {
            place->inherited = true;
            open_change_apply(inflight, place);
            if (!is_over_or_refused(inflight, place, head->opcode, published)) {
                arena_keep(place->block, place->bytes);
                continue;
            }
        }
        place->number = place->block = 0; /* arena_free_unkept() frees its block */
        place->taken = false;
    }
    for (unsigned i = 0; i < INFLIGHT_BUFFERS; i++)
        buffer_request(inflight, i); /* so that an interrupt in another buffer finds it */
    /* Move the requests of buffers to places, unless they are finished or have a place already. */
    for (unsigned i = 0; i < INFLIGHT_BUFFERS; i++) {
        const struct fuse_in_header *head = buffer_of(inflight, i);
        struct inflight_request *request = buffer_request(inflight, i);
        bool has_place = false;

        for (unsigned n = 0; n < inflight->n_places; n++)
            has_place |= inflight->places[n].number == head->unique;
        if (request && head->opcode == FUSE_INTERRUPT)
            inflight_interrupt(inflight, ((const struct fuse_interrupt_in *)(head + 1))->unique);
        if (request && !is_over_or_refused(inflight, request, head->opcode, published) &&
            !has_place) {
            struct inflight_request *place = inflight_move_to_place(inflight, request);

            if (place)
                place->inherited = true;
            else
                refuse(inflight, request, ENOMEM);
        }
        buffer_clear(inflight, i);
    }
    for (unsigned i = 0; i < INFLIGHT_BUFFERS; i++)
        inflight->buffers[i].answer.number = 0;
}

struct inflight_request *inflight_next(struct inflight *inflight, uint32_t *at)
{
    while (*at < inflight->n_places) {
        struct inflight_request *place = &inflight->places[(*at)++];

        if (place->inherited && place->number) {
            place->inherited = false;
            return place;
        }
    }
    return NULL;
}

void inflight_give_up(struct inflight *inflight)
{
    for (unsigned i = 0; i < INFLIGHT_BUFFERS; i++) {
        struct inflight_request *request = buffer_request(inflight, i);

        if (request)
            refuse(inflight, request, EIO);
        buffer_clear(inflight, i);
        inflight->buffers[i].answer.number = 0;
    }
    for (unsigned i = 0; i < inflight->n_places; i++) {
        if (inflight->places[i].number) {
            open_change_apply(inflight, &inflight->places[i]);
            refuse(inflight, &inflight->places[i], EIO);
        }
        memset(&inflight->places[i], 0, sizeof inflight->places[i]);
    }
}
