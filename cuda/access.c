/* SPDX-License-Identifier: BSD-3-Clause */
/* Peer access between two GPUs: opened, and proven in both directions; see access.h. */
#include "cuda/access.h"

#include "base/conf.h"
#include "base/log.h"
#include "cuda/level.h"
#include "cuda/probe.h"

static bool no_handle; /* the driver does not export our scratch */

enum shunt_reason shunt_access_offer(const struct shunt_device *device, struct shunt_card *mine)
{
    if (shunt_conf->p2p_disable)
        return SHUNT_REASON_NO_P2P;
    no_handle = SHUNT_CUDA_AT(SHUNT_LOG_INFO, cuIpcGetMemHandle(&mine->scratch, (CUdeviceptr)device->scratch)) != SHUNT_OK;
    return no_handle ? SHUNT_REASON_NO_IPC : SHUNT_REASON_NONE;
}

static enum shunt_reason refusal_of(CUresult result)
{
    return result == CUDA_ERROR_PEER_ACCESS_UNSUPPORTED || result == CUDA_ERROR_TOO_MANY_PEERS ? SHUNT_REASON_NO_P2P :
                                                                                                 SHUNT_REASON_NO_IPC;
}

static enum shunt_reason open_scratch(const struct shunt_meeting *meeting, bool nvlink)
{
    struct shunt_card *mine = meeting->mine, *theirs = meeting->theirs;
    CUdeviceptr scratch = 0;

    if (mine->total != theirs->total) {
        shunt_warn("cuda", "SHUNT_SCRATCH_SIZE differs between the ranks");
        return SHUNT_REASON_PEER_VETO;
    }
    if (shunt_conf->p2p_disable || no_handle)
        return no_handle ? SHUNT_REASON_NO_IPC : SHUNT_REASON_NO_P2P;
    if (!shunt_level_allows(mine, theirs, nvlink))
        return SHUNT_REASON_P2P_LEVEL;
    CUresult result =
        shunt_driver.cuIpcOpenMemHandle_v2(&scratch, theirs->scratch, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    if (result != CUDA_SUCCESS) {
        shunt_warn_once(refusal_of(result), "opening a peer's scratch memory: %s", shunt_cuda_text(result));
        return refusal_of(result);
    }
    meeting->peer->scratch = (char *)scratch;
    return SHUNT_REASON_NONE;
}

/* Our pattern is written, or it is clear that it will not be. NONE as long as nothing speaks against it. */
static enum shunt_reason send_pattern(const struct shunt_meeting *meeting)
{
    struct shunt_card *mine = meeting->mine;
    const uint32_t me = mine->channel, owner = meeting->theirs->channel, them = 1u << owner;

    if (!((atomic_load(&mine->probed) | atomic_load(&mine->late)) & them)) {
        enum shunt_status status =
            shunt_probe_send(&meeting->peer->probe, meeting->device->scratch, meeting->peer->scratch, me, owner);
        if (status == SHUNT_OK)
            atomic_fetch_or(&mine->probed, them);
        else if (status == SHUNT_ERR_LIMIT)
            atomic_fetch_or(&mine->late, them);
        else if (status != SHUNT_AGAIN)
            return SHUNT_REASON_NO_P2P;
    }
    const bool late = atomic_load(&mine->late) & them;
    if (!late && !(atomic_load(&meeting->theirs->late) >> me & 1))
        return SHUNT_REASON_NONE;
    shunt_warn_once(SHUNT_REASON_SLOW_LINK, "what process %u writes to process %u of the node has not ended after %zu ms",
                    late ? me : owner, late ? owner : me, shunt_conf->probe_ms);
    return SHUNT_REASON_SLOW_LINK;
}

/* Both have written into each other's scratch and looked what has come: OPEN once both have said so. */
static enum shunt_peer_state prove(const struct shunt_meeting *meeting)
{
    struct shunt_card *mine = meeting->mine, *theirs = meeting->theirs;
    struct shunt_peer *peer = meeting->peer;
    const uint32_t me = 1u << mine->channel, them = 1u << theirs->channel;

    /* Acquire: its copy was complete before it said so. */
    if (!peer->heard && (atomic_load_explicit(&theirs->probed, memory_order_acquire) & me)) {
        peer->heard = shunt_probe_arrived(meeting->device->scratch, theirs->channel, mine->channel);
        atomic_fetch_or(peer->heard ? &mine->heard : &mine->deaf, them);
    }
    const bool unheard = atomic_load(&theirs->deaf) & me;
    if (unheard || (atomic_load(&mine->deaf) & them)) {
        peer->reason = SHUNT_REASON_LOST_WRITES;
        shunt_warn_once(peer->reason, "what process %u writes does not arrive at process %u of the node",
                        unheard ? mine->channel : theirs->channel, unheard ? theirs->channel : mine->channel);
        return SHUNT_PEER_REFUSED;
    }
    bool both = peer->heard && (atomic_load_explicit(&theirs->heard, memory_order_acquire) & me);
    return both ? SHUNT_PEER_OPEN : SHUNT_PEER_MET;
}

enum shunt_peer_state shunt_access_meet(const struct shunt_meeting *meeting, bool nvlink)
{
    struct shunt_peer *peer = meeting->peer;

    if (peer->scratch == NULL)
        peer->reason = open_scratch(meeting, nvlink);
    if (peer->reason == SHUNT_REASON_NONE)
        peer->reason = send_pattern(meeting);
    if (peer->reason != SHUNT_REASON_NONE)
        return SHUNT_PEER_REFUSED;
    enum shunt_peer_state state = prove(meeting);
    peer->to = peer->scratch;
    peer->from = meeting->device->scratch;
    return state;
}

void shunt_access_leave(struct shunt_peer *peer)
{
    if (peer->scratch != NULL)
        shunt_driver.cuIpcCloseMemHandle((CUdeviceptr)peer->scratch);
    peer->scratch = NULL;
}
