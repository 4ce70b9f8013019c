/* SPDX-License-Identifier: BSD-3-Clause */
/* The settings that name algorithms: SHUNT_ALLREDUCE=oneshot:0-256k,twoshot and their kind. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/conf.h"
#include "base/stats.h"
#include "coll/run.h"
#include "coll/select.h"

static struct shunt_ranges user_ranges[SHUNT_NCOLLS]; /* empty: auto */

static bool parse_size(const char **text, uint64_t *size)
{
    static const char suffixes[] = "kmgt";
    char *end;

    if (**text < '0' || **text > '9') /* no sign, no blanks */
        return false;
    uint64_t value = strtoull(*text, &end, 10);
    const char *suffix = *end != 0 ? strchr(suffixes, *end | 32) : NULL;
    unsigned shift = suffix != NULL ? 10 * (unsigned)(suffix - suffixes + 1) : 0;
    if (value > UINT64_MAX >> shift)
        return false;
    *size = value << shift;
    *text = end + (suffix != NULL);
    return true;
}

static bool parse_name(unsigned coll, const char **text, int *algo)
{
    size_t length = strcspn(*text, ":,");
    const char *name = *text;

    *text += length;
    if (length == 4 && strncmp(name, "auto", 4) == 0) {
        *algo = SHUNT_ALGO_AUTO;
        return true;
    }
    if (length == 6 && strncmp(name, "staged", 6) == 0) {
        *algo = SHUNT_ALGO_STAGED;
        return true;
    }
    for (int i = 0; i < SHUNT_NALGOS; i++) {
        if (shunt_algos[i].coll == coll && strlen(shunt_algos[i].name) == length &&
            strncmp(shunt_algos[i].name, name, length) == 0) {
            *algo = i;
            return true;
        }
    }
    return false;
}

/* One "name" or "name:from-to", either bound may be left out. */
static bool parse_range(unsigned coll, const char **text, struct shunt_range *range)
{
    *range = (struct shunt_range){ .from = 0, .to = UINT64_MAX };
    if (!parse_name(coll, text, &range->algo))
        return false;
    if (**text != ':')
        return true;
    ++*text;
    if (**text != '-' && !parse_size(text, &range->from))
        return false;
    if (**text != '-')
        return false;
    ++*text;
    if (**text != 0 && **text != ',' && !parse_size(text, &range->to))
        return false;
    return range->from < range->to;
}

bool shunt_ranges_parse(unsigned coll, const char *text, struct shunt_ranges *ranges)
{
    ranges->n = 0;
    for (;;) {
        if (ranges->n == SHUNT_RANGES || !parse_range(coll, &text, &ranges->range[ranges->n]))
            break;
        ranges->n++;
        if (*text == 0)
            return true;
        if (*text++ != ',')
            break;
    }
    ranges->n = 0;
    return false;
}

int shunt_ranges_find(const struct shunt_ranges *ranges, uint64_t bytes)
{
    for (unsigned i = 0; i < ranges->n; i++) {
        if (bytes >= ranges->range[i].from && bytes < ranges->range[i].to)
            return ranges->range[i].algo;
    }
    return SHUNT_ALGO_AUTO;
}

/* The words that the statistics print for collectives and algorithms. */
static void name_statistics(void)
{
    static const char *colls[SHUNT_NCOLLS];
    static const char *const algos[] = {
#define X(name) #name,
        SHUNT_ALGO_NAMES(X)
#undef X
    };

    for (unsigned i = 0; i < SHUNT_NCOLLS; i++)
        colls[i] = shunt_coll_name(i);
    shunt_stats_names(colls, SHUNT_NCOLLS, algos, SHUNT_NALGO_NAMES);
}

/* Say what is allowed instead: the words of algos.def, alone or by size. */
static void refuse(const char *setting, const char *value, unsigned coll)
{
    char allowed[256] = "auto, staged";
    size_t length = strlen(allowed);

    for (int i = 0; i < SHUNT_NALGOS && length < sizeof allowed; i++) {
        if (shunt_algos[i].coll == coll)
            length += (size_t)snprintf(allowed + length, sizeof allowed - length, ", %s", shunt_algos[i].name);
    }
    if (length < sizeof allowed)
        snprintf(allowed + length, sizeof allowed - length, "; each with sizes like %s:0-256k", shunt_algos[0].name);
    shunt_conf_refuse(setting, value, allowed);
}

void shunt_select_start(void)
{
    name_statistics();
#define COLLECTIVE(ID, word, ...)                                                                  \
    if (!shunt_ranges_parse(SHUNT_COLL_##ID, shunt_conf->word, &user_ranges[SHUNT_COLL_##ID]))     \
        refuse("SHUNT_" #ID, shunt_conf->word, SHUNT_COLL_##ID);
#include "coll/colls.def"
#undef COLLECTIVE
}

int shunt_select_wanted(unsigned coll, uint64_t bytes)
{
    return shunt_ranges_find(&user_ranges[coll], bytes);
}
