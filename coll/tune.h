/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What has been measured on a machine, as a table that SHUNT_TUNE_FILE names and `shunt-topo --tune` writes: for groups of ranks,
 * by collective, algorithm and protocol, the time at some sizes, and for kinds of links a time for each hop and a width. A group
 * is found by the hash of its GPUs and of what is between them (routes.h), so equal machines can share a table; one of another
 * machine is refused.
 *
 * A row's time at a size is between its two neighbours, and beyond the last it is a start and the bytes over a width, fitted to
 * all. For each collective and size the fastest row is looked up; ranks find the same, for each has the table's hash in its
 * posts, and where these differ nobody uses any.
 */
#ifndef SHUNT_COLL_TUNE_H
#define SHUNT_COLL_TUNE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "coll/colls.h"
#include "topo/topo.h"

#define SHUNT_TUNE_POINTS  12 /* sizes of a row */
#define SHUNT_TUNE_ROWS    32 /* rows of a group */
#define SHUNT_TUNE_GROUPS  16
#define SHUNT_TUNE_CLASSES 160 /* of sizes: four for each power of two */

struct shunt_tune_row {
    uint8_t coll, proto, n; /* n: points */
    int algo;               /* enum shunt_algo_id */
    uint64_t bytes[SHUNT_TUNE_POINTS]; /* ascending */
    double us[SHUNT_TUNE_POINTS];
    double start, width; /* fitted: us, and bytes per us, which are MB/s */
};

struct shunt_tune_group {
    uint64_t hash;
    int ranks, n_rows;
    struct shunt_tune_row rows[SHUNT_TUNE_ROWS];
    uint8_t best[2][SHUNT_NCOLLS][SHUNT_TUNE_CLASSES]; /* [only in rank order]: 1 + row; 0: nothing is known */
};

struct shunt_tune_link {
    int kind; /* enum shunt_link_kind, or SHUNT_LINK_BY_HOST */
    double flag, fenced, width; /* us, us, MB/s; see shunt_topo_correct */
};

struct shunt_tune {
    uint64_t machine; /* hash of the node; 0: nobody could tell */
    uint32_t hash;    /* of all of this, not 0 */
    int n_groups, n_links;
    struct shunt_tune_group groups[SHUNT_TUNE_GROUPS];
    struct shunt_tune_link links[SHUNT_NLINKS + 1];
};

/* start + bytes / width with the least squares of relative errors; start is not below 0, and width is above. Pure. */
void shunt_tune_fit(const uint64_t *bytes, const double *us, int n, double *start, double *width);

/* Microseconds of a row's way at a size. Pure. */
double shunt_tune_time(const struct shunt_tune_row *row, uint64_t bytes);

/* Fit the rows, and find the best for each size: after the rows have been filled. Pure. */
void shunt_tune_finish(struct shunt_tune *tune);

const struct shunt_tune_group *shunt_tune_group(const struct shunt_tune *tune, uint64_t hash);

/* The row for a size; NULL: nothing is known of this collective. */
const struct shunt_tune_row *shunt_tune_best(const struct shunt_tune_group *group, unsigned coll, uint64_t bytes, bool ordered);

/* ---- as text (table.c) ---- */

/* `error`: what is wrong, and in which line. tune has its contents as text, its hash at the end; see table.c. */
enum shunt_status shunt_tune_parse(const char *text, struct shunt_tune *tune, char error[160]);
enum shunt_status shunt_tune_load(const char *path, struct shunt_tune *tune, char error[160]);

/* The reverse; allocated, NULL: no memory. */
char *shunt_tune_print(const struct shunt_tune *tune);

/* ---- of this process ---- */

/* The table of SHUNT_TUNE_FILE; NULL: there is none, or it cannot be used, which has been said in a line. Read at the first call. */
const struct shunt_tune *shunt_tune(void);

#endif
