/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Joins the arena of the job that it was started in, without MPI, and says what it found: for test_launchers.py.
 *
 *     launched: NAME world_rank 1 local_rank 1 local_size 4 found 4
 */
#include <stdio.h>
#include <unistd.h>

#include "base/board.h"
#include "base/identity.h"

int main(void)
{
    struct shunt_identity identity = {.local_rank = -1, .world_rank = -1};
    struct shunt_arena *arena;
    if (shunt_identity_find(&identity) != SHUNT_OK || shunt_arena_join(&arena) != SHUNT_OK)
        return puts("launched: alone") < 0;
    shunt_arena_set_world(arena, identity.world_rank, identity.local_size);
    shunt_arena_seal(arena);
    int found = 0;
    for (int rank = 0; rank < identity.local_size; rank++)
        found += shunt_arena_slot(arena, rank) >= 0;
    printf("launched: %s world_rank %d local_rank %d local_size %d found %d\n", identity.name, identity.world_rank,
           identity.local_rank, identity.local_size, found);
    shunt_arena_leave(arena);
    return 0;
}
