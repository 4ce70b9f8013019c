/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Functions that a host may lack. Without mpi.h, which may declare them or not. The program asks for MPI_Session_init by
 * dlsym and through a plugin (-DPLUGIN, a shared object) that refers to it weakly. -DNEED: the plugin calls it, and a
 * question of the kind "do you know this GPU", without asking.
 */
#include <dlfcn.h>
#include <stdio.h>

int MPI_Initialized(int *);

#if defined(PLUGIN) && defined(NEED)
int MPI_Session_init(int, int, void *);
int MPIX_Query_hip_support(void);
int plugin_run(void);
int plugin_run(void)
{
    return printf("answer %d hip %d\n", MPI_Session_init(0, 0, 0), MPIX_Query_hip_support());
}
#elif defined(PLUGIN)
int MPI_Session_init(int, int, void *) __attribute__((weak));
int plugin_run(void);
int plugin_run(void)
{
    return printf("weak %d\n", MPI_Session_init != 0);
}
#else
int main(int argc, char **argv)
{
    int flag, (*run)(void);
    MPI_Initialized(&flag);
    void *plugin = dlopen(argv[1], (argc > 2 ? RTLD_LAZY : RTLD_NOW) | RTLD_LOCAL);
    if (!plugin)
        return puts(dlerror()), 1;
    *(void **)&run = dlsym(plugin, "plugin_run");
    printf("dlsym %d Allreduce %d\n", dlsym(RTLD_DEFAULT, "MPI_Session_init") != 0,
           dlsym(RTLD_DEFAULT, "MPI_Allreduce") != 0);
    run();
    return 0;
}
#endif
