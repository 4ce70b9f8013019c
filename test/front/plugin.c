/* SPDX-License-Identifier: BSD-3-Clause */
/* A plugin that uses MPI (-DPLUGIN, a shared object), and a program without MPI that opens it RTLD_LOCAL. */
#include <dlfcn.h>
#include <stdio.h>

#ifdef PLUGIN
#include <mpi.h>
int plugin_run(void);
int plugin_run(void)
{
    double in = 3, out = 0;
    MPI_Init(NULL, NULL);
    MPI_Allreduce(&in, &out, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    printf("sum %g\n", out);
    return MPI_Finalize();
}
#else
int main(int argc, char **argv)
{
    (void)argc;
    void *plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (!plugin) {
        puts(dlerror());
        return 1;
    }
    int (*run)(void);
    *(void **)&run = dlsym(plugin, "plugin_run");
    return run();
}
#endif
