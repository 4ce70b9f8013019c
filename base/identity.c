/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The identity of a job, from what its launcher left in the environment and in the inherited files.
 *
 * Every source that is there goes into the hash: launchers nest (a Hydra mpirun inside a Slurm step, a job started by
 * a rank of another), and what an outer one left behind is the same for all ranks of the inner one, so more sources
 * can only tell apart what differs.
 */
#include "base/identity.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/conf.h"

/* A whole small file of /proc as text; false if it cannot be read. */
static bool read_text(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t n = read(fd, text, size - 1);
    close(fd);
    text[n > 0 ? n : 0] = 0;
    return n > 0;
}

/* ---- processes ---- */

struct stat_line {
    bool zombie; /* all its threads have ended */
    uint64_t start;
};

/* False if there is no process of that number or /proc is not there. */
static bool read_stat(pid_t pid, struct stat_line *line)
{
    char path[64], text[1024], state;
    long threads;
    unsigned long long start;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    if (!read_text(path, text, sizeof text))
        return false;
    /* the command in parentheses may contain anything; fields 3 (state), 20 (threads), 22 (start) follow the last one */
    const char *at = strrchr(text, ')');
    if (!at || sscanf(at + 1, " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %ld %*s %llu", &state,
                      &threads, &start) != 3)
        return false;
    /* the main thread may have ended before the others: then it is a zombie of a living process */
    line->zombie = (state == 'Z' || state == 'X') && threads <= 1;
    line->start = start;
    return true;
}

static uint32_t pid_space(void)
{
    struct stat info;
    return stat("/proc/self/ns/pid", &info) ? 0 : (uint32_t)info.st_ino;
}

struct shunt_process shunt_process_self(void)
{
    int kept = errno;
    struct shunt_process self = {.pid = getpid(), .space = pid_space()};
    struct stat_line line;
    self.start = read_stat(self.pid, &line) ? line.start : 0;
    errno = kept;
    return self;
}

bool shunt_process_ended(const struct shunt_process *process)
{
    int kept = errno;
    bool ended = false;
    /* only what this process itself could see may be judged: same namespace, and /proc was there and still is */
    if (process->start && process->space && process->space == pid_space()) {
        struct stat_line line, own;
        if (read_stat(process->pid, &line))
            ended = line.start != process->start || line.zombie;
        else
            ended = read_stat(getpid(), &own);
    }
    errno = kept;
    return ended;
}

/* ---- the job ---- */

/*
 * Hydra's proxy, one for each job and node, and Slurm's step daemon made a socket pair before they started the rank:
 * its peer credentials name them. Only a live socket counts: an outer launcher's variable may have been inherited.
 */
static bool find_proxy(struct shunt_process *proxy)
{
    const char *text = shunt_env("PMI_FD");
    char *end;
    long fd = text ? strtol(text, &end, 10) : -1;
    if (!text || *end || end == text || fd < 0 || fd > INT_MAX)
        return false;
    struct ucred peer;
    socklen_t size = sizeof peer;
    if (getsockopt((int)fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) || peer.pid <= 0)
        return false;
    struct stat_line line;
    if (!read_stat(peer.pid, &line))
        return false;
    proxy->pid = peer.pid;
    proxy->start = line.start;
    return true;
}

static void hash_text(XXH3_state_t *hash, const char *label, const char *text)
{
    XXH3_128bits_update(hash, label, strlen(label) + 1);
    XXH3_128bits_update(hash, text, strlen(text) + 1);
}

/* Add what tells the job; false if nothing does. */
static bool hash_job(XXH3_state_t *hash, const struct shunt_process *proxy)
{
    bool known = false;
    const char *space = shunt_env("PMIX_NAMESPACE");
    if (space && *space) {
        hash_text(hash, "pmix", space);
        /* Open MPI 4 makes the namespace of 16 bits of mpirun's number: two jobs may share it, but not the server */
        const char *server = shunt_env("PMIX_SERVER_URI2");
        hash_text(hash, "server", server ? server : "");
        known = true;
    }
    const char *job = shunt_env("SLURM_JOB_ID"), *step = shunt_env("SLURM_STEP_ID");
    if (job && *job && step && *step) {
        hash_text(hash, "slurm job", job);
        hash_text(hash, "slurm step", step);
        known = true;
    }
    if (proxy) {
        hash_text(hash, "proxy", "");
        XXH3_128bits_update(hash, &proxy->pid, sizeof proxy->pid);
        XXH3_128bits_update(hash, &proxy->start, sizeof proxy->start);
        known = true;
    }
    return known;
}

/* ---- the place in it ---- */

/* A number of 0 or more from the environment, or -1. */
static int env_number(const char *name)
{
    const char *text = shunt_env(name);
    if (!text || *text < '0' || *text > '9')
        return -1;
    char *end;
    long value = strtol(text, &end, 10);
    return *end || value > INT_MAX ? -1 : (int)value;
}

static int first_number(const char *const *names)
{
    for (; *names; names++) {
        int value = env_number(*names);
        if (value >= 0)
            return value;
    }
    return -1;
}

/* Slurm writes the tasks of each node as "4(x2),3": 4, 4 and 3. This node's, or 0. */
static int slurm_local_size(void)
{
    const char *at = shunt_env("SLURM_STEP_TASKS_PER_NODE");
    int node = env_number("SLURM_NODEID");
    while (at && *at && node >= 0) {
        char *end;
        long tasks = strtol(at, &end, 10), times = 1;
        if (end == at)
            break;
        if (end[0] == '(' && end[1] == 'x') {
            times = strtol(end + 2, &end, 10);
            end += *end == ')';
        }
        if (node < times)
            return tasks > 0 && tasks <= INT_MAX ? (int)tasks : 0;
        node -= (int)times;
        at = end + (*end == ',');
        if (times <= 0 || (*end && *end != ','))
            break;
    }
    return 0;
}

/* A living proxy is the innermost launcher's; what PMIx and Slurm say may then be an outer one's. */
static void find_place(struct shunt_identity *identity, bool proxy)
{
    static const char *const local_sizes[] = {"MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE", NULL};
    static const char *const local_ranks[] = {"MPI_LOCALRANKID", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID", NULL};
    static const char *const hydra_ranks[] = {"PMI_RANK", NULL};
    static const char *const other_ranks[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID", NULL};
    int size = first_number(proxy ? local_sizes : local_sizes + 1);
    identity->local_size = size > 0 ? size : slurm_local_size();
    identity->local_rank = first_number(proxy ? local_ranks : local_ranks + 1);
    identity->world_rank = first_number(proxy ? hydra_ranks : other_ranks);
}

static void write_name(const XXH3_state_t *hash, char name[SHUNT_IDENTITY_NAME])
{
    XXH128_hash_t digest = XXH3_128bits_digest(hash);
    snprintf(name, SHUNT_IDENTITY_NAME, SHUNT_IDENTITY_PREFIX "%016llx%016llx", (unsigned long long)digest.high64,
             (unsigned long long)digest.low64);
}

enum shunt_status shunt_identity_find(struct shunt_identity *identity)
{
    int kept = errno;
    XXH3_state_t hash;
    XXH3_128bits_reset(&hash);
    struct shunt_process proxy = {0};
    bool has_proxy = find_proxy(&proxy);
    enum shunt_status status = SHUNT_PASS;
    if (hash_job(&hash, has_proxy ? &proxy : NULL)) {
        uid_t user = geteuid();
        XXH3_128bits_update(&hash, &user, sizeof user);
        char boot[64] = "";
        if (read_text("/proc/sys/kernel/random/boot_id", boot, sizeof boot))
            hash_text(&hash, "boot", boot);
        write_name(&hash, identity->machine);
        const char *node = shunt_conf->node;
        if (*node)
            hash_text(&hash, "node", node);
        write_name(&hash, identity->name);
        identity->node = *node ? XXH3_64bits(node, strlen(node)) | 1 : 0;
        find_place(identity, has_proxy);
        status = SHUNT_OK;
    }
    errno = kept;
    return status;
}
