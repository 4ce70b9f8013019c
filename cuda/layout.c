/* SPDX-License-Identifier: BSD-3-Clause */
/* How a rank's scratch memory is divided. */
#include "base/conf.h"
#include "cuda/peer.h"

#define LL_SHARE   (4 << 20)  /* bytes of scratch for LL */
#define LINE_SHARE (24 << 20) /* for LL128, three eighths at most: larger messages go round in it */

struct shunt_layout shunt_layout_make(int local_size)
{
    struct shunt_layout layout = { .channels = local_size < SHUNT_KRANKS ? (uint32_t)local_size : SHUNT_KRANKS };
    uint32_t senders = layout.channels > 1 ? layout.channels - 1 : 1;
    uint64_t budget = shunt_conf->scratch_size, rings = senders * SHUNT_PLAN_AREAS;
    uint64_t line_share = budget / 8 * 3 < LINE_SHARE ? budget / 8 * 3 : LINE_SHARE;

    layout.ll_bytes = LL_SHARE / (2 * senders) / 4096 * 4096;
    layout.lines = SHUNT_SCRATCH_DATA + senders * 2 * layout.ll_bytes;
    layout.line_bytes = line_share / (2 * senders) / 4096 * 4096;
    layout.rings = layout.lines + senders * 2 * layout.line_bytes;
    if (budget > layout.rings)
        layout.ring_bytes = (budget - layout.rings) / rings / 65536 * 65536;
    layout.total = layout.rings + rings * layout.ring_bytes;
    layout.host_rings = layout.lines;
    if (shunt_conf->shm_size > layout.host_rings)
        layout.host_ring_bytes = (shunt_conf->shm_size - layout.host_rings) / rings / 4096 * 4096;
    layout.host_total = layout.host_rings + rings * layout.host_ring_bytes;
    return layout;
}
