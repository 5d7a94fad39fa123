/*
 * What users take of the daemon's time. Nobody is limited who is alone; as long as somebody else
 * asks too, requests of who took more than his share are held back until that is made up for. All
 * with the engine's lock held.
 */
#pragma once

#include <fuse_lowlevel.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct fs;
struct request;

struct share {
    struct fs *fs;
    uint64_t deadline_ns; /* the moment of the first that is held; UINT64_MAX: none is */
    struct share_user {
        uid_t uid;
        struct share_line {
            uint64_t paid_ns;     /* the moment from which on he has taken no more than his share */
            uint64_t last_ns;     /* what the last one took */
            uint64_t reserved_ns; /* of paid_ns, for those that are held */
            struct request *held, *held_last; /* in the order of their moments */
        } lines[2];                           /* of commands (writes), and of all others */
    } * users;
    size_t n_users;
    struct share_asker {
        uid_t uid;
        uint64_t time_ns; /* of his last request */
    } askers[2];          /* the last two users who asked, the last one first */
};

void share_init(struct share *share, struct fs *fs);
void share_free(struct share *share); /* asserts that nothing is held */
/* Has it to wait? Only one that is `patient` has. */
bool share_owes(struct share *share, struct request *rq, uint64_t now_ns);
/* It waits, as it has to. One that can wait for long has to hear of interrupts (share_take). */
void share_hold(struct share *share, struct request *rq, uint64_t now_ns);
bool share_is_long(const struct request *rq);
/* Takes the request of req off, if it is held; NULL: it is not. */
struct request *share_take(struct share *share, fuse_req_t req);
/* Before its reply, and before it is parked: what it took with the lock and in works since. */
void share_charge(struct share *share, struct request *rq, uint64_t now_ns);
/* The one whose moment came first (now_ns UINT64_MAX: any), taken off; NULL: none. */
struct request *share_next(struct share *share, uint64_t now_ns);
