/* SPDX-License-Identifier: BSD-3-Clause */
/* A CPU-only MPI program that says what it sees of its process: threads, and mapped libraries of ours or of CUDA's. */
#include <mpi.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>

static int count_threads(void)
{
    int n = 0;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *entry; (entry = readdir(tasks));)
        n += entry->d_name[0] != '.';
    closedir(tasks);
    return n;
}

static void print_files(void)
{
    char line[4096], last[4096] = "";
    FILE *maps = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof line, maps)) {
        char *path = strchr(line, '/'), *name = path ? strrchr(path, '/') : NULL;
        if (name && (strstr(name, "shunt") || strstr(name, "engine-") || strstr(name, "libcuda")) &&
            !strstr(path, "/dev/shm/") && strcmp(name, last)) {
            printf("mapped %s", name + 1);
            strcpy(last, name);
        }
    }
    fclose(maps);
}

int main(int argc, char **argv)
{
    double in = 2, out = 0;
    MPI_Init(&argc, &argv);
    MPI_Allreduce(&in, &out, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    printf("sum %g threads %d\n", out, count_threads());
    if (argc > 1)
        print_files();
    return MPI_Finalize();
}
