/* SPDX-License-Identifier: BSD-3-Clause */
/* The choice of network interfaces; interfaces.h. */
#include "ucx/interfaces.h"

#include <net/if.h>
#include <stdio.h>
#include <string.h>

/* Is `name` one of the words, or does one of them begin it? */
static bool is_among(const char *name, const char *words, bool whole)
{
    while (*words != 0) {
        size_t length = strcspn(words, ",");
        if (length > 0 && strncmp(name, words, length) == 0 && (!whole || name[length] == 0))
            return true;
        words += length;
        words += *words == ',';
    }
    return false;
}

bool shunt_interfaces_choose(const char *wanted, char *names, size_t bytes)
{
    bool except = *wanted == '^';
    const char *words = wanted + except;
    bool whole = *words == '=';
    size_t used = 0;
    struct if_nameindex *all = *wanted != 0 ? if_nameindex() : NULL;

    words += whole;
    names[0] = 0;
    for (struct if_nameindex *one = all; one != NULL && one->if_name != NULL; one++) {
        size_t length = strlen(one->if_name);
        if (is_among(one->if_name, words, whole) == except || used + length + 2 > bytes)
            continue;
        used += (size_t)snprintf(names + used, bytes - used, "%s%s", used > 0 ? "," : "", one->if_name);
    }
    if (all != NULL)
        if_freenameindex(all);
    if (used == 0 && *wanted != 0 && !except)
        snprintf(names, bytes, "%s", words);
    return names[0] != 0;
}
