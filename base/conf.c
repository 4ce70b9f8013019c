/* SPDX-License-Identifier: BSD-3-Clause */
/* The settings, parsed row by row of conf.def; the only getenv of the library. */
#include "base/conf.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/auxv.h>

#include "base/log.h"

enum kind { KIND_BOOL, KIND_SIZE, KIND_COUNT, KIND_TEXT, KIND_WORD };

enum { NAME_BYTES = 64, VALUE_BYTES = 256 };

static const struct row {
    struct shunt_conf_row text;
    enum kind kind;
    size_t offset; /* of the field in struct shunt_conf */
} rows[] = {
#define ROW(kind, field, name, value, help, allowed)                                               \
    {{name, value, help, allowed}, kind, offsetof(struct shunt_conf, field)},
#define CONF_BOOL(field, name, value, help)        ROW(KIND_BOOL, field, name, value, help, "0 1 no yes")
#define CONF_SIZE(field, name, value, help)                                                        \
    ROW(KIND_SIZE, field, name, value, help, "bytes like 4096, 64k, 8m, 1g, 1t, or inf")
#define CONF_COUNT(field, name, value, help)       ROW(KIND_COUNT, field, name, value, help, "a whole number, or inf")
#define CONF_TEXT(field, name, value, help)        ROW(KIND_TEXT, field, name, value, help, "text")
#define CONF_WORD(field, name, value, help, words) ROW(KIND_WORD, field, name, value, help, words)
#include "base/conf.def"
#undef CONF_BOOL
#undef CONF_SIZE
#undef CONF_COUNT
#undef CONF_TEXT
#undef CONF_WORD
#undef ROW
};
enum { NROWS = sizeof rows / sizeof rows[0] };

/* Names that begin with SHUNT_ and belong to others: the simulated GPU; UCX; the front, before it can read settings. */
static const char *const foreign[] = {"SHUNT_SIM_*", "SHUNT_UCX_*", "SHUNT_ENGINE_DIR"};

static struct shunt_conf defaults; /* filled by load_defaults before anything of this object runs */
const struct shunt_conf *shunt_conf = &defaults;

extern char **environ;

const char *shunt_env(const char *name)
{
    return secure_getenv(name);
}

/* ---- values ---- */

/* The position of the word that equals `value` in a list separated by blanks, whatever the case; -1 if none does. */
static int find_word(const char *words, const char *value)
{
    size_t length = strlen(value);
    int position = 0;
    for (const char *word = words; *word; position++) {
        size_t n = strcspn(word, " ");
        if (n == length && strncasecmp(word, value, n) == 0)
            return position;
        word += n + (word[n] == ' ');
    }
    return -1;
}

/* A decimal number, if `suffixes` with one of k m g t (powers of 1024), or "inf". */
static bool parse_number(const char *text, bool suffixes, size_t *size)
{
    if (strcasecmp(text, "inf") == 0) {
        *size = SIZE_MAX;
        return true;
    }
    size_t value = 0;
    const char *p = text;
    for (; *p >= '0' && *p <= '9'; p++)
        if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, *p - '0', &value))
            return false;
    if (p == text)
        return false;
    if (*p) {
        int power = suffixes ? find_word("k m g t", p) : -1;
        if (power < 0 || __builtin_mul_overflow(value, (size_t)1 << (10 * (power + 1)), &value))
            return false;
    }
    *size = value;
    return true;
}

/* Put the value into its field; false, and nothing changed, if it is not allowed. TEXT keeps the pointer. */
static bool parse_value(const struct row *row, const char *value, struct shunt_conf *conf)
{
    void *field = (char *)conf + row->offset;
    int position;
    switch (row->kind) {
    case KIND_BOOL:
        position = find_word(row->text.allowed, value);
        if (position >= 0)
            *(bool *)field = position % 2;
        return position >= 0;
    case KIND_SIZE:
    case KIND_COUNT:
        return parse_number(value, row->kind == KIND_SIZE, field);
    case KIND_TEXT:
        *(const char **)field = value;
        return true;
    case KIND_WORD:
        position = find_word(row->text.allowed, value);
        if (position >= 0)
            *(int *)field = position;
        return position >= 0;
    }
    return false;
}

static void load_defaults(struct shunt_conf *conf)
{
    for (int i = 0; i < NROWS; i++)
        parse_value(&rows[i], rows[i].text.normal, conf);
}

__attribute__((constructor(101))) static void start(void)
{
    load_defaults(&defaults);
}

/* ---- names ---- */

static size_t smallest(size_t a, size_t b, size_t c)
{
    size_t least = a < b ? a : b;
    return least < c ? least : c;
}

/* How many letters must be put in, left out or replaced to make one name of the other (Levenshtein). */
static size_t edit_distance(const char *a, size_t length, const char *b)
{
    size_t row[NAME_BYTES + 1];
    size_t n = strnlen(b, NAME_BYTES);
    for (size_t j = 0; j <= n; j++)
        row[j] = j;
    for (size_t i = 1; i <= length; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= n; j++) {
            size_t above = row[j];
            row[j] = smallest(above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1]));
            diagonal = above;
        }
    }
    return row[n];
}

static bool is_foreign(const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++) {
        size_t n = strlen(foreign[i]);
        if (foreign[i][n - 1] == '*' ? length >= n && strncmp(name, foreign[i], n - 1) == 0
                                     : length == n && strncmp(name, foreign[i], n) == 0)
            return true;
    }
    return false;
}

static void check_name(const char *name, size_t length)
{
    size_t least = SIZE_MAX;
    const char *nearest = NULL;
    for (int i = 0; i < NROWS; i++) {
        size_t distance = edit_distance(name, length, rows[i].text.name);
        if (distance == 0)
            return;
        if (distance < least) {
            least = distance;
            nearest = rows[i].text.name;
        }
    }
    if (!is_foreign(name, length))
        shunt_log_always("%.*s is not a setting; the nearest is %s (shunt-info --settings lists all)", (int)length,
                         name, nearest);
}

static void check_names(void)
{
    if (getauxval(AT_SECURE))
        return;
    for (char **variable = environ; variable && *variable; variable++) {
        size_t length = strcspn(*variable, "=");
        if (strncmp(*variable, "SHUNT_", 6) == 0)
            check_name(*variable, length < NAME_BYTES ? length : NAME_BYTES);
    }
}

/* ---- the process's settings ---- */

void shunt_conf_refuse(const char *name, const char *value, const char *allowed)
{
    for (int i = 0; i < NROWS; i++)
        if (strcmp(rows[i].text.name, name) == 0)
            shunt_log_always("%s=%s refused (allowed: %s); using the default %s", name, value, allowed,
                             rows[i].text.normal);
}

static void load_row(const struct row *row, struct shunt_conf *conf)
{
    const char *value = shunt_env(row->text.name);
    if (!value || !*value || strcmp(value, row->text.normal) == 0)
        return;
    /* copied, since the application may change its environment; without memory the default stays */
    char *copy = row->kind == KIND_TEXT ? strdup(value) : NULL;
    if (row->kind == KIND_TEXT && !copy)
        return;
    if (!parse_value(row, copy ? copy : value, conf))
        shunt_conf_refuse(row->text.name, value, row->text.allowed);
}

void shunt_conf_load(struct shunt_conf *conf)
{
    int saved = errno;
    load_defaults(conf);
    for (int i = 0; i < NROWS; i++)
        load_row(&rows[i], conf);
    check_names();
    errno = saved;
}

void shunt_conf_use(const struct shunt_conf *conf)
{
    shunt_conf = conf;
}

/* ---- values as text ---- */

static void print_number(size_t size, bool suffixes, char *text, size_t bytes)
{
    if (size == SIZE_MAX) {
        snprintf(text, bytes, "inf");
        return;
    }
    int power = 0;
    while (suffixes && power < 4 && size && size % 1024 == 0) {
        size /= 1024;
        power++;
    }
    snprintf(text, bytes, "%zu%.1s", size, &"\0kmgt"[power]);
}

static void print_value(const struct row *row, const struct shunt_conf *conf, char *text, size_t bytes)
{
    const void *field = (const char *)conf + row->offset;
    switch (row->kind) {
    case KIND_BOOL:
        snprintf(text, bytes, "%d", *(const bool *)field);
        break;
    case KIND_SIZE:
    case KIND_COUNT:
        print_number(*(const size_t *)field, row->kind == KIND_SIZE, text, bytes);
        break;
    case KIND_TEXT:
        snprintf(text, bytes, "%s", *(const char *const *)field);
        break;
    case KIND_WORD: {
        const char *word = row->text.allowed;
        for (int i = *(const int *)field; i > 0; i--)
            word += strcspn(word, " ") + 1;
        snprintf(text, bytes, "%.*s", (int)strcspn(word, " "), word);
        break;
    }
    }
}

/* Set and accepted: the refused keep their default. */
static bool from_environment(const struct row *row)
{
    const char *value = shunt_env(row->text.name);
    struct shunt_conf scratch;
    return value && *value && parse_value(row, value, &scratch);
}

void shunt_conf_each(const struct shunt_conf *conf,
                     void (*visit)(void *context, const struct shunt_conf_row *row, const char *value,
                                   const char *source),
                     void *context)
{
    for (int i = 0; i < NROWS; i++) {
        char value[VALUE_BYTES];
        print_value(&rows[i], conf, value, sizeof value);
        visit(context, &rows[i].text, value, from_environment(&rows[i]) ? "environment" : "default");
    }
}
