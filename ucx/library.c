/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opening the UCX library; library.h.
 *
 * Two copies of libucp in one process break each other, so what the host MPI has brought is used, whatever its version. It is
 * never closed: its threads and hooks may outlive us.
 */
#include "ucx/library.h"

#include <dlfcn.h>
#include <signal.h>
#include <string.h>

#include "base/conf.h"
#include "base/log.h"

struct shunt_ucp shunt_ucp;

static struct sigaction kept[NSIG];

void shunt_signals_keep(void)
{
    for (int i = 1; i < NSIG; i++)
        if (sigaction(i, NULL, &kept[i]) != 0)
            memset(&kept[i], 0, sizeof kept[i]);
}

void shunt_signals_restore(void)
{
    struct sigaction now;

    for (int i = 1; i < NSIG; i++)
        if (sigaction(i, NULL, &now) == 0 && now.sa_handler != kept[i].sa_handler)
            sigaction(i, &kept[i], NULL);
}

/* It would print a line for each peer that ends; we have our own. Only of a library that is nobody else's. */
static void quieten(void *library)
{
    const char *level = shunt_env("UCX_LOG_LEVEL");
    ucs_status_t (*set)(const char *name, const char *value);

    *(void **)&set = dlsym(library, "ucs_global_opts_set_value");
    if (set != NULL && (level == NULL || *level == 0) && shunt_log->level < SHUNT_LOG_INFO)
        set("LOG_LEVEL", "fatal");
}

static void *open_library(void)
{
    static const char name[] = "libucp.so.0";
    void *library = dlopen(name, RTLD_NOW | RTLD_NOLOAD);

    if (library != NULL)
        return library;
    library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        shunt_info("net", "no UCX: %s", dlerror());
    else
        quieten(library);
    return library;
}

static bool find_functions(void *library)
{
#define X(type, name, parameters)                                             \
    if ((*(void **)&shunt_ucp.name = dlsym(library, #name)) == NULL) {        \
        shunt_warn("net", "this UCX is too old: it has no %s", #name);        \
        return false;                                                         \
    }
#include "ucx/ucp.def"
#undef X
    return true;
}

bool shunt_ucp_open(void)
{
    static bool found;

    if (found)
        return true;
    void *library = open_library();
    found = library != NULL && find_functions(library);
    if (found) {
        unsigned major, minor, release;
        shunt_ucp.ucp_get_version(&major, &minor, &release);
        shunt_info("net", "UCX %u.%u.%u", major, minor, release);
    }
    return found;
}
