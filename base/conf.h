/* SPDX-License-Identifier: BSD-3-Clause */
/* The settings of this process, read once from the environment. The only getenv of the library is in conf.c. */
#ifndef SHUNT_BASE_CONF_H
#define SHUNT_BASE_CONF_H

#include <stdbool.h>
#include <stddef.h>

struct shunt_conf {
#define CONF_BOOL(field, name, value, help)        bool field;
#define CONF_SIZE(field, name, value, help)        size_t field;
#define CONF_TEXT(field, name, value, help)        const char *field;
#define CONF_WORD(field, name, value, help, words) int field; /* position in words */
#include "base/conf.def"
#undef CONF_BOOL
#undef CONF_SIZE
#undef CONF_TEXT
#undef CONF_WORD
};

extern const struct shunt_conf *shunt_conf; /* never NULL: the defaults until shunt_conf_load */

/* Read the environment: bad values are refused with the allowed ones, unknown SHUNT_ names with the nearest. */
void shunt_conf_load(struct shunt_conf *conf);

/* Engines: use the front's. */
void shunt_conf_use(const struct shunt_conf *conf);

/* Launcher facts and file names that are not settings of ours (PMI_RANK, HOME ...): the one other door to getenv. */
const char *shunt_env(const char *name);

/* Every row, for shunt-info and the manual: calls back with name, value in use, default, help. */
void shunt_conf_each(void (*row)(void *context, const char *name, const char *value, const char *normal,
                                 const char *help),
                     void *context);

#endif
