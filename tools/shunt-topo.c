/* SPDX-License-Identifier: BSD-3-Clause */
/* Shows how the GPUs of this machine, or of a described one, are joined, and what follows from it for collectives. */
#include "config.h"

#include <argp.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/conf.h"
#include "coll/run.h"
#include "topo/find.h"
#include "topo/nodes.h"
#include "tools/topo_view.h"

/* for argp to find, although all else is hidden */
__attribute__((visibility("default"))) const char *argp_program_version = "shunt-topo " PACKAGE_VERSION;

static struct topo_view view;
static struct shunt_conf conf;

static struct {
    const char *from, *gpus, *svg;
    bool text, json;
    int nodes;
    const char *tune, *most;
} options;

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "shunt-topo: %s: %s\n", what, why);
    exit(EXIT_FAILURE);
}

/* ---- the machine ---- */

static void find_machine(struct shunt_topo *machine)
{
    char error[160];
    const struct shunt_topo *here;

    if (options.from != NULL) {
        if (shunt_topo_load(options.from, machine, error) != SHUNT_OK)
            fail(options.from, error);
    } else if ((here = shunt_topo_machine()) != NULL) {
        *machine = *here;
    } else {
        fail("this machine", "no memory");
    }
}

/* "0,2,5-7" */
static int read_list(const char *list, int most, int *gpus)
{
    unsigned long long seen = 0;
    int n = 0;

    for (const char *at = list; *at;) {
        char *end;
        long first = strtol(at, &end, 10), last = first;
        if (end == at)
            fail(list, "not a list like 0,2,5-7");
        if (*end == '-') {
            at = end + 1;
            last = strtol(at, &end, 10);
        }
        if (end == at || (*end && *end != ',') || first < 0 || last < first || last >= most)
            fail(list, "not a list of GPUs of this machine, like 0,2,5-7");
        for (; first <= last; first++) {
            if (seen >> first & 1)
                fail(list, "a GPU comes twice");
            seen |= 1ull << first;
            gpus[n++] = (int)first;
        }
        at = end + (*end == ',');
    }
    return n;
}

static int read_number(const char *text, int least, int most)
{
    char *end;
    long value = strtol(text, &end, 10);

    if (end == text || *end || value < least || value > most) {
        fprintf(stderr, "shunt-topo: %s: not a number from %d to %d\n", text, least, most);
        exit(EXIT_FAILURE);
    }
    return (int)value;
}

static void pick_gpus(struct shunt_topo *machine)
{
    static struct shunt_topo all;
    int gpus[SHUNT_TOPO_GPUS], n = read_list(options.gpus, machine->n, gpus);

    if (n == 0)
        fail("--gpus", "no GPU is left");
    all = *machine;
    shunt_topo_pick(&all, gpus, n, machine);
}

/* ---- output ---- */

static void put(void *context, const char *piece)
{
    (void)context;
    fputs(piece, stdout);
}

static void write_picture(void)
{
    FILE *to = strcmp(options.svg, "-") == 0 ? stdout : fopen(options.svg, "w");

    if (to == NULL)
        fail(options.svg, strerror(errno));
    topo_draw(&view, to);
    if (ferror(to) || (to != stdout && fclose(to) != 0))
        fail(options.svg, strerror(errno));
}

/* ---- the program ---- */

enum { KEY_SVG = 256, KEY_TEXT, KEY_NODES, KEY_JSON, KEY_TUNE, KEY_TUNE_TO };

static error_t parse_option(int key, char *argument, struct argp_state *state)
{
    switch (key) {
    case 'f':
        options.from = argument;
        return 0;
    case 'g':
        options.gpus = argument;
        return 0;
    case KEY_SVG:
        options.svg = argument;
        return 0;
    case KEY_TEXT:
        options.text = true;
        return 0;
    case KEY_JSON:
        options.json = true;
        return 0;
    case KEY_NODES:
        options.nodes = read_number(argument, 2, SHUNT_CLUSTER_NODES);
        return 0;
    case KEY_TUNE:
        options.tune = argument;
        return 0;
    case KEY_TUNE_TO:
        options.most = argument;
        return 0;
    case ARGP_KEY_ARG:
        argp_usage(state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const char before[] =
    "Shows how the GPUs of a machine are joined, in NVIDIA's words, and what follows from it: which of them reach each other "
    "and why not, the best rings, two trees, the NIC of each GPU, how long an Allreduce takes by a model, and whether "
    "collectives run on the GPUs. Makes no CUDA context.";

static const char after[] =
    "The machine is this one, as NVML and the system's PCI devices tell it, or what SHUNT_TOPO_FILE or --from describes. Such "
    "a file is what `nvidia-smi topo -m` prints; lines like these may follow:\n"
    "\n"
    "  machine two H200 of a rented node\n"
    "  node left\n"
    "  GPU0: pci 0000:44:00.0 uuid GPU-... mig name NVIDIA H200\n"
    "  NIC0: mlx5_0\n"
    "  p2p no\n"
    "  refused GPU0 GPU1\n"
    "\n"
    "(a title; another node begins, with a matrix of its own; more about a GPU, of which any part may be missing; a NIC's name; "
    "the driver allows peer access: yes, no, nvlink; or not between these two.)\n"
    "\n"
    "SHUNT_P2P_LEVEL, SHUNT_P2P_DISABLE and SHUNT_SHM_DISABLE count as they do for programs.\n"
    "\n"
    "  shunt-topo\n"
    "  shunt-topo --from box.txt --gpus 0-3 --svg box.svg\n"
    "  SHUNT_P2P_LEVEL=PIX shunt-topo --from box.txt\n"
    "  shunt-topo --text >here.txt; SHUNT_TOPO_FILE=here.txt mpirun ...\n"
    "  mpirun -n 8 shunt-topo --tune table; SHUNT_TUNE_FILE=$PWD/table mpirun ...";

int main(int argc, char **argv)
{
    static const struct argp_option rows[] = {
        {"from", 'f', "FILE", 0, "The machine that this file describes, instead of this one", 0},
        {"gpus", 'g', "LIST", 0, "Only these of its GPUs, like 0,2,5-7, in this order", 0},
        {"svg", KEY_SVG, "FILE", 0, "Draw it too, into this file (-: draw it on the standard output, and say nothing)", 0},
        {"text", KEY_TEXT, NULL, 0, "Only print the machine, as --from and SHUNT_TOPO_FILE read it", 0},
        {"json", KEY_JSON, NULL, 0, "Say it as JSON, for programs", 0},
        {"nodes", KEY_NODES, "N", 0, "Also say how long an Allreduce takes over N nodes like this machine, by a model", 0},
        {"tune", KEY_TUNE, "FILE", 0, "Under mpirun: measure each algorithm on these ranks, and write the table for SHUNT_TUNE_FILE", 0},
        {"tune-to", KEY_TUNE_TO, "BYTES", 0, "The largest message of that, by default 33554432", 0},
        {0}};
    static char text[sizeof before + sizeof after];
    static const struct argp argp = {rows, parse_option, NULL, text, NULL, NULL, NULL};

    snprintf(text, sizeof text, "%s\v%s", before, after);
    argp_parse(&argp, argc, argv, 0, NULL, NULL);
    if (options.tune != NULL)
        topo_tune(options.tune, options.most != NULL ? options.most : "33554432");
    shunt_conf_load(&conf);
    shunt_conf_use(&conf);
    shunt_select_start();
    find_machine(&view.machine);
    if (options.gpus != NULL)
        pick_gpus(&view.machine);
    view.limits = (struct shunt_topo_limits){ conf.p2p_level, conf.p2p_disable, conf.shm_disable };
    if (view.machine.n > 0)
        topo_view_make(&view);
    if (options.text)
        shunt_topo_write(&view.machine, put, NULL);
    else if (options.json)
        topo_write_json(&view, stdout);
    else if (options.svg == NULL || strcmp(options.svg, "-") != 0)
        topo_print(&view);
    if (options.nodes > 0 && !options.text && !options.json && (options.svg == NULL || strcmp(options.svg, "-") != 0))
        topo_print_nodes(&view, options.nodes);
    if (options.svg != NULL)
        write_picture();
    return fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
