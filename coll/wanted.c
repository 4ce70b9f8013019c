/* SPDX-License-Identifier: BSD-3-Clause */
/* What names algorithms: SHUNT_ALLREDUCE=oneshot:0-256k,twoshot, the info of a communicator, and their kind; see wishes.h. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/conf.h"
#include "base/log.h"
#include "base/stats.h"
#include "coll/run.h"
#include "coll/select.h"
#include "coll/wishes.h"

static struct shunt_wishes settings; /* ranges that are empty: auto */

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

/* What is allowed instead: the words of algos.def, alone or by size. */
static void list_allowed(unsigned coll, char allowed[256])
{
    size_t length = (size_t)sprintf(allowed, "auto, staged");

    for (int i = 0; i < SHUNT_NALGOS && length < 256; i++) {
        if (shunt_algos[i].coll == coll)
            length += (size_t)snprintf(allowed + length, 256 - length, ", %s", shunt_algos[i].name);
    }
    if (length < 256)
        snprintf(allowed + length, 256 - length, "; each with sizes like %s:0-256k", shunt_algos[0].name);
}

static void refuse(const char *setting, const char *value, unsigned coll)
{
    char allowed[256];

    list_allowed(coll, allowed);
    shunt_conf_refuse(setting, value, allowed);
}

/* FNV-1a */
static uint32_t mix(uint32_t hash, uint64_t word)
{
    for (int i = 0; i < 8; i++)
        hash = (hash ^ (uint32_t)(word >> 8 * i & 255)) * 0x01000193u;
    return hash;
}

static uint32_t hash_of(const struct shunt_wishes *wishes)
{
    uint32_t hash = mix(mix(0x811c9dc5u, (uint64_t)wishes->proto), wishes->ordered);

    for (unsigned coll = 0; coll < SHUNT_NCOLLS; coll++) {
        const struct shunt_ranges *ranges = &wishes->ranges[coll];
        for (unsigned i = 0; i < ranges->n; i++) {
            hash = mix(mix(hash, coll), (uint64_t)ranges->range[i].algo);
            hash = mix(mix(hash, ranges->range[i].from), ranges->range[i].to);
        }
    }
    return hash;
}

void shunt_select_start(void)
{
    name_statistics();
    settings.proto = shunt_conf->proto;
    settings.ordered = shunt_conf->reproducible;
#define COLLECTIVE(ID, word, ...)                                                                      \
    if (!shunt_ranges_parse(SHUNT_COLL_##ID, shunt_conf->word, &settings.ranges[SHUNT_COLL_##ID]))     \
        refuse("SHUNT_" #ID, shunt_conf->word, SHUNT_COLL_##ID);
#include "coll/colls.def"
#undef COLLECTIVE
    settings.hash = hash_of(&settings);
}

const struct shunt_wishes *shunt_wishes_of(const struct shunt_wishes *wishes)
{
    return wishes != NULL ? wishes : &settings;
}

int shunt_wishes_algo(const struct shunt_wishes *wishes, unsigned coll, uint64_t bytes)
{
    return shunt_ranges_find(&shunt_wishes_of(wishes)->ranges[coll], bytes);
}

/* ---- hints ---- */

static const char *const keys[SHUNT_HINTS] = {
#define COLLECTIVE(ID, word, ...) [SHUNT_COLL_##ID] = "shunt_" #word,
#include "coll/colls.def"
#undef COLLECTIVE
    [SHUNT_NCOLLS] = "shunt_proto",
};

const char *shunt_hint_key(unsigned i)
{
    return i < SHUNT_HINTS ? keys[i] : NULL;
}

static bool take_proto(const char *value, int *proto)
{
    static const char *const words[] = { "auto", "ll", "ll128", "simple" };

    for (int i = 0; i < 4; i++) {
        if (strcmp(value, words[i]) == 0) {
            *proto = i;
            return true;
        }
    }
    return false;
}

static void take_hint(const struct shunt_hint *hint, struct shunt_wishes *wishes)
{
    char allowed[256] = "auto, ll, ll128, simple";

    for (unsigned i = 0; i < SHUNT_HINTS; i++) {
        struct shunt_ranges ranges;
        if (keys[i] == NULL || strcmp(hint->key, keys[i]) != 0)
            continue;
        if (i == SHUNT_NCOLLS ? take_proto(hint->value, &wishes->proto) : shunt_ranges_parse(i, hint->value, &ranges)) {
            if (i < SHUNT_NCOLLS)
                wishes->ranges[i] = ranges;
            return;
        }
        if (i < SHUNT_NCOLLS)
            list_allowed(i, allowed);
        shunt_log_always("the hint %s=%s of a communicator is refused (allowed: %s)", hint->key, hint->value, allowed);
    }
}

/* Those that there have been: found again by their hash, never freed. */
#define MOST_KINDS 256
static struct {
    pthread_mutex_t lock;
    const struct shunt_wishes *kinds[MOST_KINDS];
    int n;
} known = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* With the lock held. The same hash is the same for the deciders, too. */
static const struct shunt_wishes *intern(const struct shunt_wishes *wishes)
{
    struct shunt_wishes *copy = NULL;

    for (int i = 0; i < known.n; i++)
        if (known.kinds[i]->hash == wishes->hash)
            return known.kinds[i];
    if (known.n < MOST_KINDS)
        copy = malloc(sizeof *copy);
    if (copy == NULL) {
        shunt_info("coll", "hints of a communicator are ignored: %s", known.n < MOST_KINDS ? "no memory" : "too many kinds");
        return NULL;
    }
    *copy = *wishes;
    known.kinds[known.n++] = copy;
    return copy;
}

const struct shunt_wishes *shunt_wishes_make(const struct shunt_hint *hints, int n)
{
    pthread_mutex_lock(&known.lock);
    static struct shunt_wishes wishes; /* large */
    const struct shunt_wishes *made = NULL;
    wishes = settings;
    for (int i = 0; i < n; i++)
        take_hint(&hints[i], &wishes);
    wishes.hash = hash_of(&wishes);
    if (wishes.hash != settings.hash)
        made = intern(&wishes);
    pthread_mutex_unlock(&known.lock);
    return made;
}
