/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a parcel comes to elements with gaps: it is fetched to a tray (cuda/tray.h) and unpacked from there by a kernel. Of a large
 * one a piece is fetched while the one before is unpacked.
 */
#ifndef SHUNT_PT2PT_PASSAGE_H
#define SHUNT_PT2PT_PASSAGE_H

#include "cuda/pattern.h"
#include "cuda/pull.h"

struct shunt_passage {
    const struct shunt_pattern *pattern; /* of the elements; NULL: they have no gaps, and nothing here is used */
    void *base;                          /* of the first */
    struct shunt_source source;
    char *tray;
    uint64_t bytes, piece;
    uint64_t begun, ended; /* pieces */
    struct shunt_pulling pulling[2]; /* of pieces of even and odd number */
    enum shunt_status status;
};

/* Pattern and base are set. MEMORY: there is no tray, and nothing has begun; OK: ask for the end until that is not AGAIN. */
enum shunt_status shunt_passage_begin(const struct shunt_source *source, uint64_t bytes, struct shunt_passage *passage);
enum shunt_status shunt_passage_end(struct shunt_passage *passage);

#endif
