/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shunt-sim: run a command with simulated GPUs. It only sets the environment: the simulated
 * libraries are found before any real ones, and read from SHUNT_SIM_* which machine they are. A
 * launcher such as mpirun hands that down to its processes on the same node.
 */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/config.h"

static void print_help(FILE *to)
{
    fprintf(to,
            "usage: shunt-sim [--preset NAME] [--gpus N] [--fault NAME[,NAME...]] [--sms N] "
            "[--memory MIB]\n"
            "                 -- COMMAND [ARGUMENT...]\n"
            "Runs a command on simulated GPUs.\n\n"
            "  --preset NAME   the machine (default %s):\n",
            sim_presets[0].word);
    for (unsigned i = 0; i < sim_n_presets; i++)
        fprintf(to, "                    %-10s %d x %s\n", sim_presets[i].word, sim_presets[i].gpus,
                sim_presets[i].name);
    fprintf(to, "  --gpus N        only that many of its GPUs\n"
                "  --fault NAME    what does not work (several: with commas between):\n");
    for (int i = 0; i < SIM_N_FAULTS; i++)
        fprintf(to, "                    %-10s %s\n", sim_fault_words[i], sim_fault_texts[i]);
    fprintf(to,
            "  --sms N         multiprocessors of each GPU (default 4)\n"
            "  --memory MIB    memory of each GPU (default %u)\n",
            sim_presets[0].memory);
}

static _Noreturn void fail(const char *what, const char *value)
{
    fprintf(stderr, "shunt-sim: %s%s\n", what, value);
    exit(2);
}

static void check_faults(const char *text)
{
    while (*text) {
        size_t length = strcspn(text, ",");
        if (sim_fault_find(text, length) < 0) {
            fprintf(stderr, "shunt-sim: unknown fault '%.*s'; there are:", (int)length, text);
            for (int i = 0; i < SIM_N_FAULTS; i++)
                fprintf(stderr, " %s", sim_fault_words[i]);
            fprintf(stderr, "\n");
            exit(2);
        }
        text += length + (text[length] == ',');
    }
}

static void check_number(const char *option, const char *text, long high)
{
    char *end;
    long value = strtol(text, &end, 10);
    if (*text && !*end && value >= (strcmp(option, "gpus") ? 1 : 0) && value <= high)
        return;
    fprintf(stderr, "shunt-sim: --%s %s: must be a number up to %ld\n", option, text, high);
    exit(2);
}

/*
 * The folder with the simulated libraries: beside this program in a build tree, else where they are
 * installed
 */
static bool find_libraries(char *folder, size_t room)
{
    char self[PATH_MAX], probe[PATH_MAX + 32];
    static const char *const places[] = {"/.libs", "", "/../lib/shunt/sim", "/../lib64/shunt/sim"};
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length < 0)
        return false;
    self[length] = 0;
    *strrchr(self, '/') = 0;
    for (unsigned i = 0; i <= sizeof places / sizeof *places; i++) {
        if (i < sizeof places / sizeof *places)
            snprintf(folder, room, "%s%s", self, places[i]);
        else
            snprintf(folder, room, "%s", SIM_FOLDER);
        snprintf(probe, sizeof probe, "%s/libcuda.so.1", folder);
        if (!access(probe, R_OK))
            return true;
    }
    return false;
}

static void set_library_path(void)
{
    char folder[PATH_MAX];
    if (!find_libraries(folder, sizeof folder))
        fail("the simulated libraries are not installed in ", SIM_FOLDER);
    const char *old = getenv("LD_LIBRARY_PATH");
    char *path = malloc(strlen(folder) + (old ? strlen(old) : 0) + 2);
    if (!path)
        fail("out of memory", "");
    sprintf(path, "%s%s%s", folder, old && *old ? ":" : "", old ? old : "");
    setenv("LD_LIBRARY_PATH", path, 1);
    free(path);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"preset", required_argument, NULL, 'p'},
                                            {"gpus", required_argument, NULL, 'g'},
                                            {"fault", required_argument, NULL, 'f'},
                                            {"sms", required_argument, NULL, 's'},
                                            {"memory", required_argument, NULL, 'm'},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    const char *preset = sim_presets[0].word, *gpus = NULL;
    int c;
    while ((c = getopt_long(argc, argv, "+h", options, NULL)) != -1) {
        switch (c) {
        case 'p':
            preset = optarg;
            break;
        case 'g':
            gpus = optarg;
            break;
        case 'f':
            check_faults(optarg);
            setenv("SHUNT_SIM_FAULT", optarg, 1);
            break;
        case 's':
            check_number("sms", optarg, 132);
            setenv("SHUNT_SIM_SMS", optarg, 1);
            break;
        case 'm':
            check_number("memory", optarg, 1 << 20);
            setenv("SHUNT_SIM_MEMORY", optarg, 1);
            break;
        case 'h':
            print_help(stdout);
            return 0;
        default:
            print_help(stderr);
            return 2;
        }
    }
    if (optind == argc) {
        print_help(stderr);
        return 2;
    }
    if (sim_preset_find(preset) < 0)
        fail("unknown preset; shunt-sim --help lists them: ", preset);
    if (gpus)
        check_number("gpus", gpus, sim_presets[sim_preset_find(preset)].gpus);
    setenv("SHUNT_SIM_PRESET", preset, 1);
    if (gpus)
        setenv("SHUNT_SIM_GPUS", gpus, 1);
    set_library_path();
    execvp(argv[optind], argv + optind);
    fprintf(stderr, "shunt-sim: %s: %s\n", argv[optind], strerror(errno));
    return errno == ENOENT ? 127 : 126;
}
