/* SPDX-License-Identifier: BSD-3-Clause */
/* For tests that read settings more than once: gives back the texts, which the library keeps for the process's life. */
#ifndef SHUNT_TEST_UNIT_SETTINGS_H
#define SHUNT_TEST_UNIT_SETTINGS_H

#include <stdlib.h>
#include <string.h>

#include "base/conf.h"

static inline void settings_drop(struct shunt_conf *conf)
{
#define CONF_BOOL(field, name, value, help)
#define CONF_SIZE(field, name, value, help)
#define CONF_COUNT(field, name, value, help)
#define CONF_TEXT(field, name, value, help)                                                        \
    if (conf->field && strcmp(conf->field, value) != 0)                                            \
        free((char *)conf->field);                                                                 \
    conf->field = NULL;
#define CONF_WORD(field, name, value, help, words)
#include "base/conf.def"
#undef CONF_BOOL
#undef CONF_SIZE
#undef CONF_COUNT
#undef CONF_TEXT
#undef CONF_WORD
}

#endif
