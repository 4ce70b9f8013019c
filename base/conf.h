/* SPDX-License-Identifier: BSD-3-Clause */
/* The settings of this process, read once from the environment. The only getenv of the library is in conf.c. */
#ifndef SHUNT_BASE_CONF_H
#define SHUNT_BASE_CONF_H

#include <stdbool.h>
#include <stddef.h>

struct shunt_conf {
#define CONF_BOOL(field, name, value, help)        bool field;
#define CONF_SIZE(field, name, value, help)        size_t field; /* SIZE_MAX: inf */
#define CONF_COUNT(field, name, value, help)       size_t field; /* likewise */
#define CONF_TEXT(field, name, value, help)        const char *field;
#define CONF_WORD(field, name, value, help, words) int field; /* position in words */
#include "base/conf.def"
#undef CONF_BOOL
#undef CONF_SIZE
#undef CONF_COUNT
#undef CONF_TEXT
#undef CONF_WORD
};

enum { SHUNT_NET_MPI = 2 }; /* a place among the words of SHUNT_NET */

extern const struct shunt_conf *shunt_conf; /* never NULL: the defaults until shunt_conf_load */

/*
 * Read the environment: bad values are refused with the allowed ones, unknown SHUNT_ names with the nearest. An empty
 * value counts as not set. Texts are copied once and stay for the life of the process. A process with raised
 * privileges (setuid) gets the defaults. Does not touch shunt_conf: see shunt_conf_use.
 */
void shunt_conf_load(struct shunt_conf *conf);

/* The settings to use from now on, in this process or (engines) this object; not copied. */
void shunt_conf_use(const struct shunt_conf *conf);

/* Launcher facts and file names that are not settings of ours (PMI_RANK, HOME ...): the one other door to getenv. */
const char *shunt_env(const char *name);

/* The line for a value that cannot be used: "shunt: NAME=VALUE refused (allowed: ...); using the default ...". */
void shunt_conf_refuse(const char *name, const char *value, const char *allowed);

/* A row of conf.def as text. */
struct shunt_conf_row {
    const char *name, *normal, *help;
    const char *allowed; /* what a value can be, in words */
};

/* Every row, for shunt-info and the manual: the row, the value in `conf`, and "default" or "environment". */
void shunt_conf_each(const struct shunt_conf *conf,
                     void (*visit)(void *context, const struct shunt_conf_row *row, const char *value,
                                   const char *source),
                     void *context);

#endif
