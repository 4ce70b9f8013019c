/* SPDX-License-Identifier: BSD-3-Clause */
/* Shows what shunt finds on this machine, which settings are in force, and what it will do, with the reasons. */
#include "config.h"

#include <argp.h>
#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/conf.h"
#include "base/identity.h"
#include "base/reasons.h"
#include "tools/info_gpu.h"

/* for argp to find, although all else is hidden */
__attribute__((visibility("default"))) const char *argp_program_version = "shunt-info " PACKAGE_VERSION;

static struct shunt_conf conf;

static bool only_settings, markdown;

/* What the parts below found out, for the last one. */
struct found {
    bool engine;
    bool room; /* /dev/shm can hold the arena */
    struct info_gpus gpus;
};

__attribute__((format(printf, 2, 3))) static void print_line(const char *name, const char *format, ...)
{
    va_list arguments;
    printf("  %-20s ", name);
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    printf("\n");
}

/* ---- settings ---- */

static void print_setting(void *context, const struct shunt_conf_row *row, const char *value, const char *source)
{
    (void)context;
    bool given = strcmp(source, "default") != 0;
    printf("  %-20s %-8s %s", row->name, *value ? value : "(empty)", source);
    if (given)
        printf(" (default %s)", *row->normal ? row->normal : "empty");
    printf("\n  %-20s   %s [%s]\n", "", row->help, row->allowed);
}

static void print_markdown_row(void *context, const struct shunt_conf_row *row, const char *value, const char *source)
{
    (void)context;
    (void)value;
    (void)source;
    if (*row->normal)
        printf("| `%s` | `%s` | %s | %s |\n", row->name, row->normal, row->allowed, row->help);
    else
        printf("| `%s` | (empty) | %s | %s |\n", row->name, row->allowed, row->help);
}

static void print_markdown(void)
{
    printf("# Settings\n"
           "\n"
           "<!-- Written by: shunt-info --settings --markdown; the source is base/conf.def. -->\n"
           "\n"
           "Environment variables, read once by each process, at its first MPI call. A value that cannot be used is\n"
           "refused with a line on stderr that names the allowed ones, and the default stays; an unknown name that\n"
           "begins with `SHUNT_` gets a line too. An empty value counts as not set.\n"
           "\n"
           "| Name | Default | Values | Meaning |\n"
           "|---|---|---|---|\n");
    shunt_conf_each(&conf, print_markdown_row, NULL);
}

/* ---- installation ---- */

/* The folder of this program, without the last `up` parts. */
static bool find_folder(int up, char folder[PATH_MAX])
{
    ssize_t n = readlink("/proc/self/exe", folder, PATH_MAX - 1);
    if (n <= 0)
        return false;
    folder[n] = '\0';
    for (int i = 0; i <= up; i++) {
        char *slash = strrchr(folder, '/');
        if (!slash)
            return false;
        *slash = '\0';
    }
    return true;
}

/* Beside an installed program, in the build folder (.libs), or where the build was told to install. */
static bool find_libshunt(char path[PATH_MAX + 32])
{
    static const char *const below[] = {"lib", "lib64", ".libs"};
    char folder[PATH_MAX];
    for (size_t i = 0; find_folder(1, folder) && i < sizeof below / sizeof below[0]; i++) {
        snprintf(path, PATH_MAX + 32, "%s/%s/libshunt.so", folder, below[i]);
        if (access(path, R_OK) == 0)
            return true;
    }
    snprintf(path, PATH_MAX + 32, "%s/libshunt.so", LIBDIR);
    return access(path, R_OK) == 0;
}

static const char *served_by(const char *family)
{
    static const struct {
        const char *family, *mpis;
    } rows[] = {{"openmpi", "Open MPI 4 and 5"},
                {"mpich", "MPICH, Intel MPI and others with MPICH's ABI"},
                {"abi", "MPIs with the standard ABI of MPI 5"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strcmp(rows[i].family, family) == 0)
            return rows[i].mpis;
    return "an MPI that this program does not know";
}

/* The engines in a folder; answers how many. */
static int print_engines(const char *folder)
{
    char pattern[PATH_MAX + 64], name[64], family[32];
    glob_t engines;
    snprintf(pattern, sizeof pattern, "%s/engine-*.so", folder);
    if (glob(pattern, 0, NULL, &engines) != 0)
        return 0;
    for (size_t i = 0; i < engines.gl_pathc; i++) {
        const char *path = engines.gl_pathv[i];
        snprintf(family, sizeof family, "%s", strrchr(path, '/') + strlen("/engine-"));
        family[strcspn(family, ".")] = '\0';
        snprintf(name, sizeof name, "engine %s", family);
        print_line(name, "%s, for %s", path, served_by(family));
    }
    int n = (int)engines.gl_pathc;
    globfree(&engines);
    return n;
}

static void print_installation(struct found *found)
{
    char library[PATH_MAX + 32], folder[PATH_MAX + 64];
    printf("Installation\n");
    print_line("version", "%s", PACKAGE_VERSION);
    const char *given = shunt_env("SHUNT_ENGINE_DIR");
    if (find_libshunt(library))
        print_line("libshunt.so", "%s", library);
    else
        print_line("libshunt.so", "not found beside this program, nor in %s", LIBDIR);
    *strrchr(library, '/') = '\0';
    snprintf(folder, sizeof folder, "%s/shunt", library);
    if (given && *given)
        found->engine = print_engines(given) > 0;
    else
        found->engine = print_engines(folder) > 0 || print_engines(library) > 0;
    if (!found->engine)
        print_line("engines", "none in %s", given && *given ? given : folder);
#ifdef HAVE_KERNELS
    print_line("kernels", "for compute capabilities %s and, by its PTX, later ones", GPU_ARCH);
#else
    print_line("kernels", "none: built without nvcc");
#endif
}

/* ---- GPUs ---- */

static void print_gpu(int i, const struct info_gpu *gpu)
{
    char name[16], near[256];
    snprintf(name, sizeof name, "GPU %d", i);
    info_cpus_near(gpu->bus, near, sizeof near);
    print_line(name, "%s, %.1f GiB, compute capability %d.%d", gpu->name, (double)gpu->memory / (1 << 30), gpu->major,
               gpu->minor);
    print_line("", "%s, PCI %s%s%s", gpu->uuid, gpu->bus, *near ? ", " : "", near);
}

/* A square of words: row i, column j. */
static void print_matrix(const char *name, const struct info_gpus *gpus,
                         const char *(*word)(const struct info_gpus *gpus, int i, int j))
{
    printf("  %-20s      ", name);
    for (int j = 0; j < gpus->n; j++)
        printf(" GPU%-3d", j);
    for (int i = 0; i < gpus->n; i++) {
        printf("\n  %-20s GPU%-2d", "", i);
        for (int j = 0; j < gpus->n; j++)
            printf(" %-6s", i == j ? "-" : word(gpus, i, j));
    }
    printf("\n");
}

static const char *peer_word(const struct info_gpus *gpus, int i, int j)
{
    return gpus->peer[i][j] ? "yes" : "no";
}

static const char *link_word(const struct info_gpus *gpus, int i, int j)
{
    return gpus->link[i][j];
}

static void print_gpus(const struct info_gpus *gpus)
{
    const char *simulated = shunt_env("SHUNT_SIM_PRESET");
    const char *visible = shunt_env("CUDA_VISIBLE_DEVICES");
    printf("\nGPUs\n");
    if (simulated)
        print_line("simulated", "SHUNT_SIM_PRESET=%s", simulated);
    if (visible)
        print_line("restricted", "CUDA_VISIBLE_DEVICES=%s", visible);
    if (gpus->library[0])
        print_line("driver", "%s, CUDA %d.%d%s%s", gpus->library, gpus->cuda / 1000, gpus->cuda % 1000 / 10,
                   *gpus->driver ? ", version " : "", gpus->driver);
    if (gpus->n == 0) {
        print_line("none", "%s", gpus->missing);
        return;
    }
    for (int i = 0; i < gpus->n; i++)
        print_gpu(i, &gpus->gpu[i]);
    if (gpus->n == 1)
        return;
    print_matrix("peer access", gpus, peer_word);
    if (gpus->links_missing[0])
        print_line("links", "not known: %s", gpus->links_missing);
    else
        print_matrix("links", gpus, link_word);
}

/* ---- node ---- */

/* Ranks find each other by what their launcher tells. */
static void print_launcher(void)
{
    struct shunt_identity identity = {.local_rank = -1, .world_rank = -1};
    if (shunt_identity_find(&identity) == SHUNT_OK)
        print_line("launcher", "rank %d, number %d of %d on this node; they meet in /dev/shm/%s", identity.world_rank,
                   identity.local_rank, identity.local_size, identity.name);
    else
        print_line("launcher", "none here (mpirun -n 1 shunt-info tells more); such a process shares no memory with others");
}

static void print_node(struct found *found)
{
    struct statvfs system;
    printf("\nNode\n");
    print_launcher();
    if (statvfs("/dev/shm", &system) != 0 || access("/dev/shm", W_OK) != 0) {
        print_line("/dev/shm", "cannot be used: %s", strerror(errno));
        return;
    }
    double mebibyte = 1 << 20;
    double available = (double)system.f_bavail * (double)system.f_frsize;
    found->room = available >= (double)conf.arena_size;
    print_line("/dev/shm", "%.0f of %.0f MiB are free, a job takes %.0f (SHUNT_ARENA_SIZE): %s", available / mebibyte,
               (double)system.f_blocks * (double)system.f_frsize / mebibyte, (double)conf.arena_size / mebibyte,
               found->room ? "enough" : "not enough");
}

/* ---- what will be done ---- */

#ifdef HAVE_KERNELS
/* Is there machine code for this GPU (same major number, minor not above) or PTX (of the last in the list)? */
static bool have_kernels(const struct info_gpu *gpu)
{
    int mine = gpu->major * 10 + gpu->minor, arch = 0;
    char *end;
    for (const char *at = GPU_ARCH; *at; at = end) {
        arch = (int)strtol(at, &end, 10);
        if (end == at)
            break;
        if (arch / 10 == gpu->major && arch <= mine)
            return true;
    }
    return arch && arch <= mine;
}
#else
static bool have_kernels(const struct info_gpu *gpu)
{
    (void)gpu;
    return false;
}
#endif

static bool print_obstacle(const char *word, enum shunt_reason reason, const char *detail)
{
    print_line("", "%s: %s (%s)", word, shunt_reason_text(reason), detail);
    return true;
}

/* What keeps all ranks from the kernels, a line each; false if nothing does. */
static bool print_causes(const struct found *found)
{
    bool any = false;
    if (strcmp(conf.allreduce, "staged") == 0)
        any |= print_obstacle("because", SHUNT_REASON_SETTING, "staged");
    if (conf.p2p_disable && conf.shm_disable)
        any |= print_obstacle("because", SHUNT_REASON_NO_P2P, "SHUNT_P2P_DISABLE=1 and SHUNT_SHM_DISABLE=1");
    if (!found->room)
        any |= print_obstacle("because", SHUNT_REASON_NO_ARENA, "too little in /dev/shm");
    if (found->gpus.n == 1)
        any |= print_obstacle("because", SHUNT_REASON_SHARED_GPU, "there is one");
    return any;
}

/* GPUs that cannot take part, and pairs of them that do not reach each other, a line each. */
static void print_exceptions(const struct info_gpus *gpus)
{
    const char *word = conf.shm_disable ? "except" : "by host memory (SHM)";
    char detail[64];
    for (int i = 0; i < gpus->n; i++) {
        snprintf(detail, sizeof detail, "GPU %d", i);
        if (!shunt_env("SHUNT_SIM_PRESET") && !have_kernels(&gpus->gpu[i]))
            print_obstacle("except", SHUNT_REASON_NO_KERNELS, detail);
    }
    if (conf.p2p_disable)
        print_obstacle(word, SHUNT_REASON_NO_P2P, "SHUNT_P2P_DISABLE=1");
    for (int i = 0; i < gpus->n && !conf.p2p_disable; i++) {
        for (int j = i + 1; j < gpus->n; j++) {
            snprintf(detail, sizeof detail, "GPU %d and GPU %d", i, j);
            if (!gpus->peer[i][j] || !gpus->peer[j][i])
                print_obstacle(word, SHUNT_REASON_NO_P2P, detail);
            else if (!gpus->links_missing[0] && !gpus->near[i][j])
                print_obstacle(word, SHUNT_REASON_P2P_LEVEL, detail);
        }
    }
}

/* Why nothing at all is taken; NULL if something may be. */
static const char *why_untouched(const struct found *found)
{
    if (conf.disable)
        return "SHUNT_DISABLE=1";
    if (!found->engine)
        return "no engine is installed";
    return found->gpus.n == 0 ? found->gpus.missing : NULL;
}

static void print_outcome(const struct found *found)
{
    printf("\nWhat will be done\n");
    const char *untouched = why_untouched(found);
    if (untouched) {
        print_line("every call", "goes to the MPI untouched, because: %s", untouched);
        return;
    }
    print_line("host memory", "goes to the MPI untouched");
    print_line("device memory", "only MPI_Allreduce is served, on the GPUs or, where that cannot be, through host memory");
    if (print_causes(found))
        print_line("", "so all of it goes through host memory");
    else
        print_exceptions(&found->gpus);
}

/* ---- the program ---- */

static error_t parse_option(int key, char *argument, struct argp_state *state)
{
    (void)argument;
    switch (key) {
    case 's':
        only_settings = true;
        return 0;
    case 'm':
        markdown = true;
        return 0;
    case ARGP_KEY_END:
        if (markdown && !only_settings)
            argp_error(state, "--markdown goes with --settings");
        return 0;
    case ARGP_KEY_ARG:
        argp_usage(state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

int main(int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"settings", 's', NULL, 0, "Only the settings: value, where it comes from, meaning and allowed values", 0},
        {"markdown", 'm', NULL, 0, "With --settings: the table of the manual", 0},
        {0}};
    static const struct argp argp = {
        options, parse_option, NULL, "Shows what shunt finds on this machine, which settings are in force, and what "
                                     "it will do, with the reasons. Makes no CUDA context.", NULL, NULL, NULL};
    argp_parse(&argp, argc, argv, 0, NULL, NULL);
    shunt_conf_load(&conf);
    shunt_conf_use(&conf);
    if (markdown) {
        print_markdown();
    } else {
        static struct found found;
        if (!only_settings) {
            print_installation(&found);
            info_gpus_find(&found.gpus);
            print_gpus(&found.gpus);
            print_node(&found);
            printf("\n");
        }
        printf("Settings\n");
        shunt_conf_each(&conf, print_setting, NULL);
        if (!only_settings)
            print_outcome(&found);
    }
    return fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
