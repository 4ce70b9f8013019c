/* SPDX-License-Identifier: BSD-3-Clause */
/* What has been measured on a machine, and what follows from it; see tune.h. */
#include "coll/tune.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/conf.h"
#include "base/log.h"
#include "coll/algo.h"
#include "coll/routes.h"
#include "topo/find.h"

void shunt_tune_fit(const uint64_t *bytes, const double *us, int n, double *start, double *width)
{
    double w = 0, x = 0, y = 0, xx = 0, xy = 0;

    for (int i = 0; i < n; i++) {
        double weight = 1 / (us[i] * us[i]), b = (double)bytes[i];
        w += weight;
        x += weight * b;
        y += weight * us[i];
        xx += weight * b * b;
        xy += weight * b * us[i];
    }
    double spread = w * xx - x * x, slope = spread > 0 ? (w * xy - x * y) / spread : 0;
    *start = slope > 0 ? (y - slope * x) / w : n > 0 ? y / w : 0;
    if (*start < 0) { /* then the line goes through 0 */
        *start = 0;
        slope = xy / xx;
    }
    *width = slope > 0 ? 1 / slope : INFINITY;
}

double shunt_tune_time(const struct shunt_tune_row *row, uint64_t bytes)
{
    const int last = row->n - 1;
    int i = 0;

    if (bytes <= row->bytes[0])
        return row->us[0];
    if (bytes >= row->bytes[last])
        return row->us[last] + (double)(bytes - row->bytes[last]) / row->width;
    while (bytes > row->bytes[i + 1])
        i++;
    double part = (double)(bytes - row->bytes[i]) / (double)(row->bytes[i + 1] - row->bytes[i]);
    return row->us[i] + part * (row->us[i + 1] - row->us[i]);
}

/* Four classes for each power of two; the least size of a class. */
static unsigned class_of(uint64_t bytes)
{
    if (bytes < 4)
        return 0;
    unsigned power = 63 - (unsigned)__builtin_clzll(bytes), number = 4 * (power - 2) + (bytes >> (power - 2) & 3);
    return number < SHUNT_TUNE_CLASSES ? number : SHUNT_TUNE_CLASSES - 1;
}

static uint64_t size_of(unsigned number)
{
    return (uint64_t)(4 + number % 4) << number / 4;
}

/* Do ranks get their sums in the order of ranks? */
static bool is_ordered(const struct shunt_tune_row *row)
{
    return shunt_algos[row->algo].number == SHUNT_NAME_oneshot || shunt_algos[row->algo].number == SHUNT_NAME_twoshot;
}

static void find_best(struct shunt_tune_group *group, unsigned coll, unsigned number, bool ordered)
{
    double least = INFINITY;

    group->best[ordered][coll][number] = 0;
    for (int r = 0; r < group->n_rows; r++) {
        const struct shunt_tune_row *row = &group->rows[r];
        if (row->coll != coll || (ordered && !is_ordered(row)))
            continue;
        double time = shunt_tune_time(row, size_of(number));
        if (time < least) {
            least = time;
            group->best[ordered][coll][number] = (uint8_t)(r + 1);
        }
    }
}

void shunt_tune_finish(struct shunt_tune *tune)
{
    for (int g = 0; g < tune->n_groups; g++) {
        struct shunt_tune_group *group = &tune->groups[g];
        for (int r = 0; r < group->n_rows; r++)
            shunt_tune_fit(group->rows[r].bytes, group->rows[r].us, group->rows[r].n, &group->rows[r].start,
                           &group->rows[r].width);
        for (unsigned i = 0; i < 2u * SHUNT_NCOLLS * SHUNT_TUNE_CLASSES; i++)
            find_best(group, i / 2 % SHUNT_NCOLLS, i / 2 / SHUNT_NCOLLS, i % 2);
    }
}

const struct shunt_tune_group *shunt_tune_group(const struct shunt_tune *tune, uint64_t hash)
{
    for (int g = 0; tune != NULL && g < tune->n_groups; g++)
        if (tune->groups[g].hash == hash)
            return &tune->groups[g];
    return NULL;
}

const struct shunt_tune_row *shunt_tune_best(const struct shunt_tune_group *group, unsigned coll, uint64_t bytes, bool ordered)
{
    uint8_t row = group->best[ordered][coll][class_of(bytes)];

    return row == 0 ? NULL : &group->rows[row - 1];
}

/* ---- of this process ---- */

static struct shunt_tune *table;

static void load(void)
{
    const char *path = shunt_conf->tune_file;
    const struct shunt_topo *machine = shunt_topo_machine();
    const uint64_t here = machine != NULL && machine->n > 0 ? shunt_routes_hash(machine) : 0;
    char error[160] = "no memory";
    struct shunt_tune *tune = malloc(sizeof *tune);

    if (tune == NULL || shunt_tune_load(path, tune, error) != SHUNT_OK) {
        shunt_log_always("SHUNT_TUNE_FILE=%s cannot be used: %s", path, error);
    } else if (tune->machine != here) {
        shunt_log_always("SHUNT_TUNE_FILE=%s is of another machine and is not used: its GPUs and links have the hash %016llx, "
                         "those of this node %016llx", path, (unsigned long long)tune->machine, (unsigned long long)here);
    } else {
        for (int i = 0; i < tune->n_links; i++)
            shunt_topo_correct(tune->links[i].kind, tune->links[i].flag, tune->links[i].fenced, tune->links[i].width);
        table = tune;
        return;
    }
    free(tune);
}

const struct shunt_tune *shunt_tune(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    if (shunt_conf->tune_file[0] == 0)
        return NULL;
    pthread_once(&once, load);
    return table;
}
