/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared memory that a program registers: executors map the same file, so kernels see what other processes see. It has other
 * addresses there than in the program, since these may be taken by something else in an executor: who wants to use it on the
 * GPU has to ask for its address, as the API demands. (Private memory cannot be shown to executors.)
 */
#include "sim/driver.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* The file that these addresses are a shared mapping of, as /proc tells it. */
struct file {
    dev_t device;
    ino_t inode;
    uint64_t offset; /* of the first address */
};

static bool find_mapping(uintptr_t address, size_t bytes, struct file *file)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[512];
    bool found = false;
    while (maps && !found && fgets(line, sizeof line, maps)) {
        unsigned long start, end, offset, inode;
        unsigned major, minor;
        char how[5];
        if (sscanf(line, "%lx-%lx %4s %lx %x:%x %lu", &start, &end, how, &offset, &major, &minor, &inode) != 7)
            continue;
        found = address >= start && address + bytes <= end && how[3] == 's' && inode != 0;
        *file = (struct file){makedev(major, minor), inode, offset + (address - start)};
    }
    if (maps)
        fclose(maps);
    return found;
}

/* A descriptor of ours for that file, if the program has one open; else -1. */
static int find_descriptor(const struct file *file)
{
    DIR *folder = opendir("/proc/self/fd");
    int found = -1;
    for (struct dirent *entry; folder && found < 0 && (entry = readdir(folder));) {
        struct stat s;
        int fd = atoi(entry->d_name);
        if (entry->d_name[0] != '.' && !fstat(fd, &s) && s.st_dev == file->device && s.st_ino == file->inode)
            found = fcntl(fd, F_DUPFD_CLOEXEC, 64);
    }
    if (folder)
        closedir(folder);
    return found;
}

CUresult sim_registered_map(struct sim_block *b)
{
    struct file file = {0};
    int saved = errno;
    b->fd = -1;
    if (b->address % SIM_PAGE == 0 && find_mapping(b->address, b->bytes, &file))
        b->fd = find_descriptor(&file);
    errno = saved;
    if (b->fd < 0)
        return CUDA_SUCCESS;
    b->offset = file.offset;
    b->map_bytes = sim_round(b->bytes, SIM_PAGE);
    b->map_address = sim_reserve(b->map_bytes, SIM_PAGE, 0);
    struct sim_request map = sim_registered_request(b);
    CUresult result = b->map_address ? sim_map_everywhere(&map) : CUDA_ERROR_OUT_OF_MEMORY;
    if (result)
        sim_registered_release(b);
    return result;
}

struct sim_request sim_registered_request(const struct sim_block *b)
{
    if (b->fd < 0)
        return (struct sim_request){.bytes = 0};
    return (struct sim_request){.verb = SIM_MAP,
                                .host = true,
                                .address = b->map_address,
                                .bytes = b->map_bytes,
                                .offset = b->offset,
                                .pid = getpid(),
                                .fd = b->fd};
}

CUdeviceptr sim_registered_address(const struct sim_block *b, CUdeviceptr p)
{
    return b->fd < 0 ? p : b->map_address + (p - b->address);
}

void sim_registered_release(const struct sim_block *b)
{
    if (b->fd < 0)
        return;
    close(b->fd);
    if (b->map_address)
        sim_unreserve(b->map_address, b->map_bytes);
}
