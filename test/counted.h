/* SPDX-License-Identifier: BSD-3-Clause */
/* What the simulated driver counts in this process; nothing on others. */
#ifndef SHUNT_TEST_COUNTED_H
#define SHUNT_TEST_COUNTED_H

#include <dlfcn.h>
#include <stddef.h>

/* "launches", or "registrations": memory made known to the driver or to others, or theirs opened; "copies": begun without waiting. */
static inline unsigned long long sim_counted(const char *what)
{
    static unsigned long long (*count)(const char *);
    void *driver = count ? NULL : dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);

    if (driver)
        *(void **)&count = dlsym(driver, "shunt_sim_count");
    return count ? count(what) : 0;
}

#endif
