/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shunt-topo --tune: this process becomes one rank of the program that measures (tune.c), which is there for each MPI, with
 * libshunt.so preloaded. Both are found from where this program lies.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/conf.h"
#include "tools/topo_view.h"

enum { PATH = 4096 };

__attribute__((noreturn)) static void fail(const char *what, const char *why)
{
    fprintf(stderr, "shunt-topo: %s: %s\n", what, why);
    exit(EXIT_FAILURE);
}

/* What the launchers leave to their processes; PMI is of all that come of MPICH. */
static const char *find_family(void)
{
    if (shunt_env("OMPI_COMM_WORLD_SIZE") != NULL)
        return "openmpi";
    if (shunt_env("PMI_RANK") != NULL || shunt_env("PMI_SIZE") != NULL)
        return "mpich";
    fail("--tune", "to be started by mpirun, a rank for each GPU: mpirun -n 8 shunt-topo --tune FILE");
}

/* The folder above the one of this program. */
static void find_prefix(char prefix[PATH])
{
    ssize_t length = readlink("/proc/self/exe", prefix, PATH - 1);

    if (length <= 0)
        fail("/proc/self/exe", strerror(errno));
    prefix[length] = 0;
    for (int i = 0; i < 2; i++) {
        char *slash = strrchr(prefix, '/');
        if (slash == NULL)
            fail(prefix, "not an absolute path");
        *slash = 0;
    }
}

void topo_tune(const char *file, const char *most)
{
    char prefix[PATH], program[PATH + 64], preload[2 * PATH + 64], *end;
    const char *family = find_family(), *before = shunt_env("LD_PRELOAD");

    unsigned long long bytes = strtoull(most, &end, 10);
    if (*most == 0 || *end != 0 || bytes < 65536 || bytes > 1u << 30)
        fail(most, "not a number of bytes from 65536 to 1073741824");
    find_prefix(prefix);
    snprintf(program, sizeof program, "%s/lib/shunt/tune-%s", prefix, family);
    snprintf(preload, sizeof preload, "%s/lib/libshunt.so%s%.4095s", prefix, before != NULL ? ":" : "", before != NULL ? before : "");
    if (access(program, X_OK) != 0)
        fail(program, strerror(errno));
    if ((before == NULL || strstr(before, "libshunt") == NULL) && setenv("LD_PRELOAD", preload, 1) != 0)
        fail("LD_PRELOAD", strerror(errno));
    unsetenv("OMPI_MCA_mca_base_envar_file_prefix"); /* mpirun takes a --tune FILE of its programs for its own */
    unsetenv("SHUNT_TUNE_FILE"); /* what is measured is not to depend on an older table */
    execl(program, program, file, most, (char *)NULL);
    fail(program, strerror(errno));
}
