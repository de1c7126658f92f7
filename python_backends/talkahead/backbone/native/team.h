/* Threads that share the work of a call, part by part. Whoever includes this is a library of its own, and calls the team
 * by its address. */
#pragma once

#include <stdint.h>

#define MEMBERS 16 /* threads of a team at most, the caller's among them */

/* Does one part of some work, as one of the team's members, from 0 on. */
typedef void part_function(void *work, int64_t part, int64_t member);

typedef void share_function(void *team, part_function *do_part, void *work, int64_t parts);

/* Who works beside the caller. */
struct helpers {
    void *team; /* NULL: nobody */
    share_function *share;
};

/* Does all parts, each once, in whatever order; what a part computes must not depend on who does it, or beside what. */
static void share(const struct helpers *helpers, part_function *do_part, void *work, int64_t parts) {
    if (helpers->team && parts > 1)
        helpers->share(helpers->team, do_part, work, parts);
    else
        for (int64_t part = 0; part < parts; part++) do_part(work, part, 0);
}
