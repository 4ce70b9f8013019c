/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tables of what has been measured, as text:
 *
 *     shunt-tune 1
 *     machine 8c1f03b2774e01aa
 *     link NVL 1.5 3 340000                    a kind of link, or SHM: us of a flag, of a fence and a flag, MB/s
 *     group 5a77d2f4093be6c1 2                 its hash and its ranks
 *     allreduce oneshot ll 8:6.1 65536:7.3     collective, algorithm, word of SHUNT_PROTO, bytes:us ...
 *     end 90ab1c2d3e4f5061                     a hash of all that is before this line
 *
 * Lines that begin with # are for people.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coll/algo.h"
#include "coll/tune.h"
#include "coll/wishes.h"

#define MOST_BYTES (256 << 10) /* of a file */

static const char *const protos[] = { "auto", "ll", "ll128", "simple" };

/* FNV-1a */
static uint64_t hash_text(const char *text, size_t length)
{
    uint64_t hash = 0xcbf29ce484222325u;

    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)text[i]) * 0x100000001b3u;
    return hash;
}

static int find_algo(const char *coll, const char *name)
{
    for (int i = 0; i < SHUNT_NALGOS; i++)
        if (strcmp(shunt_coll_name(shunt_algos[i].coll), coll) == 0 && strcmp(shunt_algos[i].name, name) == 0)
            return i;
    return -1;
}

static const char *const misfit = "not a line of a table";

/* What is wrong with it, or NULL. */
static const char *read_points(char *rest, struct shunt_tune_row *row)
{
    char *state = NULL;

    for (char *word = strtok_r(rest, " ", &state); word != NULL; word = strtok_r(NULL, " ", &state)) {
        unsigned long long bytes;
        double us;
        char more;
        if (row->n == SHUNT_TUNE_POINTS || sscanf(word, "%llu:%lf%c", &bytes, &us, &more) != 2)
            return "not bytes:us, or too many of them";
        if (!(us > 0 && us < 1e12) || (row->n > 0 && bytes <= row->bytes[row->n - 1]))
            return "times must be above 0, and sizes must grow";
        row->bytes[row->n] = bytes;
        row->us[row->n++] = us;
    }
    return row->n > 0 ? NULL : "no sizes";
}

static const char *read_row(char *line, struct shunt_tune *tune)
{
    char coll[32], name[32], proto[32];
    int at = 0, p = 0;

    if (sscanf(line, "%31s %31s %31s %n", coll, name, proto, &at) != 3 || at == 0)
        return misfit;
    int algo = find_algo(coll, name);
    while (p < 4 && strcmp(protos[p], proto) != 0)
        p++;
    if (algo < 0 || p == 4)
        return "no such algorithm or protocol";
    struct shunt_tune_group *group = tune->n_groups > 0 ? &tune->groups[tune->n_groups - 1] : NULL;
    if (group == NULL || group->n_rows == SHUNT_TUNE_ROWS)
        return "no group has begun, or too many rows";
    struct shunt_tune_row *row = &group->rows[group->n_rows++];
    *row = (struct shunt_tune_row){ .coll = (uint8_t)shunt_algos[algo].coll, .proto = (uint8_t)p, .algo = algo };
    return read_points(line + at, row);
}

static const char *read_link(const char *line, struct shunt_tune *tune)
{
    struct shunt_tune_link *link = &tune->links[tune->n_links];
    char word[16], more;

    if (tune->n_links > SHUNT_NLINKS ||
        sscanf(line, "link %15s %lf %lf %lf %c", word, &link->flag, &link->fenced, &link->width, &more) != 4)
        return misfit;
    link->kind = SHUNT_LINK_BY_HOST;
    for (int kind = 0; kind < SHUNT_NLINKS; kind++)
        if (strcmp(word, shunt_link_word((enum shunt_link_kind)kind)) == 0)
            link->kind = kind;
    if (link->kind == SHUNT_LINK_BY_HOST && strcmp(word, "SHM") != 0)
        return "no such link";
    tune->n_links++;
    return link->flag >= 0 && link->fenced >= 0 && link->width >= 1 && link->width < 1e9 ? NULL : "not times and a width";
}

static const char *read_line(char *line, struct shunt_tune *tune)
{
    unsigned long long hash;
    int ranks;
    char more;

    if (sscanf(line, "machine %llx %c", &hash, &more) == 1) {
        tune->machine = hash;
        return NULL;
    }
    if (sscanf(line, "group %llx %d %c", &hash, &ranks, &more) == 2) {
        if (tune->n_groups == SHUNT_TUNE_GROUPS)
            return "too many groups";
        struct shunt_tune_group *group = &tune->groups[tune->n_groups++];
        group->hash = hash;
        group->ranks = ranks;
        return NULL;
    }
    return strncmp(line, "link ", 5) == 0 ? read_link(line, tune) : read_row(line, tune);
}

/* The text up to its last line, which vouches for it. */
static const char *check_end(const char *text, size_t *length)
{
    const char *end = strstr(text, "\nend ");
    unsigned long long hash;

    if (strncmp(text, "shunt-tune 1\n", 13) != 0)
        return "not a table of shunt-topo --tune";
    if (end == NULL || sscanf(end + 5, "%llx", &hash) != 1)
        return "it has no end";
    *length = (size_t)(end + 1 - text);
    return hash == hash_text(text, *length) ? NULL : "it has been changed since it was written";
}

enum shunt_status shunt_tune_parse(const char *text, struct shunt_tune *tune, char error[160])
{
    size_t length = 0;
    const char *wrong = check_end(text, &length);
    char *copy = wrong == NULL ? strndup(text, length) : NULL, *rest = copy, *line;
    int number = 0;

    memset(tune, 0, sizeof *tune);
    snprintf(error, 160, "%s", wrong != NULL ? wrong : "no memory");
    if (copy == NULL)
        return wrong != NULL ? SHUNT_ERR_INVALID : SHUNT_ERR_MEMORY;
    while (wrong == NULL && (line = strsep(&rest, "\n")) != NULL)
        if (++number > 1 && *line != 0 && *line != '#')
            wrong = read_line(line, tune);
    free(copy);
    if (wrong != NULL) {
        snprintf(error, 160, "line %d: %s", number, wrong);
        return SHUNT_ERR_INVALID;
    }
    uint64_t hash = hash_text(text, length);
    tune->hash = (uint32_t)(hash ^ hash >> 32) | 1;
    shunt_tune_finish(tune);
    return SHUNT_OK;
}

enum shunt_status shunt_tune_load(const char *path, struct shunt_tune *tune, char error[160])
{
    FILE *file = fopen(path, "re");
    char *text = file != NULL ? calloc(1, MOST_BYTES + 1) : NULL;

    snprintf(error, 160, "%s", file == NULL ? strerror(errno) : "no memory");
    size_t length = text != NULL ? fread(text, 1, MOST_BYTES + 1, file) : 0;
    enum shunt_status status = SHUNT_ERR_INVALID;
    if (text != NULL && length > MOST_BYTES)
        snprintf(error, 160, "it is too large");
    else if (text != NULL)
        status = shunt_tune_parse(text, tune, error);
    free(text);
    if (file != NULL)
        fclose(file);
    return status;
}

/* ---- the reverse ---- */

struct out {
    char *text;
    size_t length;
};

__attribute__((format(printf, 2, 3))) static void put(struct out *out, const char *format, ...)
{
    va_list list;

    va_start(list, format);
    int more = vsnprintf(out->text + out->length, MOST_BYTES - out->length, format, list);
    va_end(list);
    out->length += (size_t)more < MOST_BYTES - out->length ? (size_t)more : MOST_BYTES - 1 - out->length;
}

static void put_row(struct out *out, const struct shunt_tune_row *row)
{
    put(out, "%s %s %s", shunt_coll_name(row->coll), shunt_algos[row->algo].name, protos[row->proto]);
    for (int i = 0; i < row->n; i++)
        put(out, " %llu:%.2f", (unsigned long long)row->bytes[i], row->us[i]);
    put(out, "\n#   %.1f us and %.0f MB/s\n", row->start, row->width);
}

char *shunt_tune_print(const struct shunt_tune *tune)
{
    struct out out = { .text = calloc(1, MOST_BYTES) };

    if (out.text == NULL)
        return NULL;
    put(&out, "shunt-tune 1\nmachine %016llx\n", (unsigned long long)tune->machine);
    for (int i = 0; i < tune->n_links; i++) {
        const struct shunt_tune_link *link = &tune->links[i];
        put(&out, "link %s %.2f %.2f %.0f\n",
            link->kind == SHUNT_LINK_BY_HOST ? "SHM" : shunt_link_word((enum shunt_link_kind)link->kind), link->flag,
            link->fenced, link->width);
    }
    for (int g = 0; g < tune->n_groups; g++) {
        put(&out, "group %016llx %d\n", (unsigned long long)tune->groups[g].hash, tune->groups[g].ranks);
        for (int r = 0; r < tune->groups[g].n_rows; r++)
            put_row(&out, &tune->groups[g].rows[r]);
    }
    put(&out, "end %016llx\n", (unsigned long long)hash_text(out.text, out.length));
    return out.text;
}
