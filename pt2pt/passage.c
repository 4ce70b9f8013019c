/* SPDX-License-Identifier: BSD-3-Clause */
/* Parcels that are unpacked; passage.h. */
#include "pt2pt/passage.h"

#include "base/conf.h"
#include "cuda/pack.h"
#include "cuda/tray.h"

/* In pieces of SHUNT_STAGE_CHUNK. Of few there is one: a launch takes as long as 4 MiB on the link. */
enum { WHOLE = 4, MOST = 8, ALIGNMENT = 256 };

static uint64_t round_up(uint64_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static uint64_t pieces_of(const struct shunt_passage *passage)
{
    return (passage->bytes + passage->piece - 1) / passage->piece;
}

/* Bytes of a piece, and where it lies meanwhile. */
static uint64_t locate(const struct shunt_passage *passage, uint64_t number, char **at)
{
    uint64_t left = passage->bytes - number * passage->piece;

    *at = passage->tray + number % 2 * passage->piece;
    return left < passage->piece ? left : passage->piece;
}

static void begin_piece(struct shunt_passage *passage)
{
    struct shunt_source source = passage->source;
    char *at;
    uint64_t bytes = locate(passage, passage->begun, &at);

    source.offset += passage->begun * passage->piece;
    passage->status = shunt_pull_begin(&source, at, bytes, &passage->pulling[passage->begun % 2]);
    if (passage->status == SHUNT_OK)
        passage->begun++;
}

/* With some that has begun. The next piece takes the room of this one, so it begins when this is unpacked. */
static enum shunt_status end_piece(struct shunt_passage *passage)
{
    enum shunt_status status = shunt_pull_end(&passage->pulling[passage->ended % 2]);
    char *at;

    if (status == SHUNT_AGAIN)
        return status;
    uint64_t bytes = locate(passage, passage->ended, &at);
    if (status == SHUNT_OK && passage->status == SHUNT_OK)
        status = shunt_pack_between(passage->pattern, passage->base, passage->ended * passage->piece, bytes, at, false);
    passage->ended++;
    passage->status = passage->status == SHUNT_OK ? status : passage->status;
    if (passage->status == SHUNT_OK && passage->begun < pieces_of(passage))
        begin_piece(passage);
    return SHUNT_OK;
}

enum shunt_status shunt_passage_begin(const struct shunt_source *source, uint64_t bytes, struct shunt_passage *passage)
{
    uint64_t half = round_up((bytes + 1) / 2), most = round_up(MOST * shunt_conf->stage_chunk);
    bool whole = bytes <= WHOLE * shunt_conf->stage_chunk;

    passage->source = *source;
    passage->bytes = bytes;
    passage->piece = whole ? bytes : half < most ? half : most;
    passage->begun = passage->ended = 0;
    passage->status = SHUNT_OK;
    passage->tray = shunt_tray_take(whole ? bytes : 2 * passage->piece);
    if (!passage->tray)
        return SHUNT_ERR_MEMORY;
    for (int i = 0; i < 2 && passage->status == SHUNT_OK && passage->begun < pieces_of(passage); i++)
        begin_piece(passage);
    return SHUNT_OK;
}

enum shunt_status shunt_passage_end(struct shunt_passage *passage)
{
    while (passage->ended < passage->begun)
        if (end_piece(passage) == SHUNT_AGAIN)
            return SHUNT_AGAIN;
    shunt_tray_give(passage->tray);
    passage->tray = NULL;
    return passage->status;
}
