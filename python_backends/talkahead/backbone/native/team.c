/* Teams of threads, which share what `team.h` says.
 *
 * Whoever is free takes the next part. So a helper that the system does not let run in time costs nothing but its help:
 * the caller does everything else meanwhile, and waits for no part but those that have been taken. Helpers look out for
 * more work for as long as a call's products follow upon each other, and sleep between calls.
 */

#define _GNU_SOURCE /* for SCHED_IDLE */
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "clock.h"
#include "team.h"

#define PATIENCE_NS 150000 /* of who looks for more work, or for the end of a part, before it sleeps: longer than what one
                            * thread does alone between the products of a long prompt, which a wake-up would double */
#define APART __attribute__((aligned(64))) /* in a line of the cache for itself */

struct member {
    struct team *team;
    int64_t index;
};

struct team {
    part_function *do_part; /* written before `left`, and read by who has taken a part: it stays until that is done */
    void *work;
    int left APART;   /* parts that nobody has taken */
    int undone APART; /* parts that are not done */
    int is_awaited;   /* whether the caller sleeps until they are */
    int calls APART;  /* counts what there was to do: helpers sleep until it changes */
    int is_asleep;    /* whether any of them does */
    int is_taken APART; /* whether a call is being shared */
    int64_t members;    /* 0: the team is still to be gathered */
    int64_t yields;     /* whether helpers run on cores alone that no other thread wants */
    struct member seats[MEMBERS];
};

static struct team teams[2][MEMBERS + 1]; /* those that yield second, by their members; for the life of the process, as are
                                           * their threads */
static pthread_mutex_t gathering = PTHREAD_MUTEX_INITIALIZER;

static int read_now(const int *from) { return __atomic_load_n(from, __ATOMIC_SEQ_CST); }
static void write_now(int *to, int value) { __atomic_store_n(to, value, __ATOMIC_SEQ_CST); }

static void rest(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static void sleep_while(int *place, int value) { syscall(SYS_futex, place, FUTEX_WAIT_PRIVATE, value, NULL); }
static void wake_all(int *place) { syscall(SYS_futex, place, FUTEX_WAKE_PRIVATE, MEMBERS); }

/* Returns soon after *place is no longer `value`; `sleeps` tells who changes it that somebody is to be woken. */
static void wait_while(int *place, int value, int *sleeps) {
    for (int64_t end = now_ns() + PATIENCE_NS; now_ns() < end; rest())
        if (read_now(place) != value) return;
    while (read_now(place) == value) {
        write_now(sleeps, 1);
        sleep_while(place, value);
    }
}

/* Takes parts while there are any. */
static void take_parts(struct team *team, int64_t member) {
    int left = read_now(&team->left);
    while (left > 0) {
        if (!__atomic_compare_exchange_n(&team->left, &left, left - 1, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) continue;
        team->do_part(team->work, left - 1, member);
        if (!__atomic_sub_fetch(&team->undone, 1, __ATOMIC_SEQ_CST) && read_now(&team->is_awaited)) wake_all(&team->undone);
        left = read_now(&team->left);
    }
}

static void *help(void *given) {
    const struct member *member = given;
    struct team *team = member->team;
    if (team->yields) sched_setscheduler(0, SCHED_IDLE, &(struct sched_param){0});
    for (;;) {
        int calls = read_now(&team->calls);
        take_parts(team, member->index);
        wait_while(&team->calls, calls, &team->is_asleep);
    }
    return NULL;
}

/* Signals are for the threads that were there before. A thread that cannot be started helps nobody. */
static void gather(struct team *team, int64_t members, int64_t yields) {
    sigset_t all, own;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &own);
    team->yields = yields;
    for (int64_t index = 1; index < members; index++) {
        struct member *member = &team->seats[index];
        pthread_t thread;
        *member = (struct member){team, index};
        if (!pthread_create(&thread, NULL, help, member)) pthread_detach(thread);
    }
    pthread_sigmask(SIG_SETMASK, &own, NULL);
    team->members = members;
}

/* The address of the team of so many members, 2 to MEMBERS, which begins on the first call. */
int64_t talkahead_team(int64_t members, int64_t yields) {
    struct team *team = &teams[yields][members];
    pthread_mutex_lock(&gathering);
    if (!team->members) gather(team, members, yields);
    pthread_mutex_unlock(&gathering);
    return (int64_t)team;
}

/* A share_function. While a team shares one call's work, another call does its own alone. */
void talkahead_share(void *address, part_function *do_part, void *work, int64_t parts) {
    struct team *team = address;
    if (__atomic_exchange_n(&team->is_taken, 1, __ATOMIC_SEQ_CST)) {
        for (int64_t part = 0; part < parts; part++) do_part(work, part, 0);
        return;
    }
    team->do_part = do_part, team->work = work;
    write_now(&team->is_awaited, 0);
    write_now(&team->undone, (int)parts);
    write_now(&team->left, (int)parts);
    __atomic_add_fetch(&team->calls, 1, __ATOMIC_SEQ_CST);
    if (__atomic_exchange_n(&team->is_asleep, 0, __ATOMIC_SEQ_CST)) wake_all(&team->calls);
    take_parts(team, 0);
    for (int undone; (undone = read_now(&team->undone));) wait_while(&team->undone, undone, &team->is_awaited);
    write_now(&team->is_taken, 0);
}

int64_t talkahead_most_members(void) { return MEMBERS; }
