/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The simulated machine, from the presets and the environment. The only place of the simulated
 * libraries that reads it.
 */
#include "sim/config.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

const struct sim_preset sim_presets[] = {
#define SIM_X(...) {__VA_ARGS__},
    SIM_PRESETS(SIM_X)
#undef SIM_X
};
const unsigned sim_n_presets = sizeof sim_presets / sizeof *sim_presets;

const char *const sim_fault_words[] = {
#define SIM_X(id, word, text) word,
    SIM_FAULTS(SIM_X)
#undef SIM_X
};
const char *const sim_fault_texts[] = {
#define SIM_X(id, word, text) text,
    SIM_FAULTS(SIM_X)
#undef SIM_X
};

static struct sim_config config;

int sim_preset_find(const char *word)
{
    for (unsigned i = 0; i < sim_n_presets; i++)
        if (!strcmp(sim_presets[i].word, word))
            return (int)i;
    return -1;
}

int sim_fault_find(const char *word, size_t length)
{
    for (int i = 0; i < SIM_N_FAULTS; i++)
        if (strlen(sim_fault_words[i]) == length && !memcmp(sim_fault_words[i], word, length))
            return i;
    return -1;
}

static const char *setting(const char *name)
{
    const char *text = getenv(name);
    return text && *text ? text : NULL;
}

/* A number from the environment, `otherwise` if there is none between `low` and `high` */
static unsigned number(const char *name, unsigned low, unsigned high, unsigned otherwise)
{
    const char *text = setting(name);
    char *end;
    unsigned long value = text ? strtoul(text, &end, 10) : 0;
    return text && !*end && value >= low && value <= high ? (unsigned)value : otherwise;
}

static unsigned read_faults(const char *text)
{
    unsigned faults = 0;
    while (text && *text) {
        size_t length = strcspn(text, ",");
        int fault = sim_fault_find(text, length);
        if (fault >= 0)
            faults |= 1u << fault;
        text += length + (text[length] == ',');
    }
    return faults;
}

/*
 * The GPU that an entry of CUDA_VISIBLE_DEVICES means: an index, or the beginning of a UUID that
 * fits one GPU only
 */
static int gpu_named(const char *entry, size_t length)
{
    char word[64], uuid[41], *end;
    int found = -1;
    if (!length || length >= sizeof word)
        return -1;
    memcpy(word, entry, length);
    word[length] = 0;
    if (!strncmp(word, config.sliced ? "MIG-" : "GPU-", 4)) {
        for (int i = 0; i < config.gpus; i++) {
            sim_uuid_text(i, uuid);
            if (strncasecmp(uuid, word, length))
                continue;
            if (found >= 0)
                return -1;
            found = i;
        }
        return found;
    }
    long index = strtol(word, &end, 10);
    return !*end && index >= 0 && index < config.gpus ? (int)index : -1;
}

/*
 * As the real driver: the list ends at the first entry that is wrong, and a GPU named twice makes
 * all of it void. Of slices a process sees one at most.
 */
static void read_visible(const char *text)
{
    if (!text) {
        for (int i = 0; i < (config.sliced ? 1 : config.gpus); i++)
            config.visible[config.n_visible++] = i;
        return;
    }
    unsigned seen = 0;
    while (*text && config.n_visible < (config.sliced ? 1 : SIM_MAX_GPUS)) {
        size_t length = strcspn(text, ",");
        int gpu = gpu_named(text, length);
        if (gpu < 0)
            return;
        if (seen & 1u << gpu) {
            config.n_visible = 0;
            config.named_twice = true;
            return;
        }
        seen |= 1u << gpu;
        config.visible[config.n_visible++] = gpu;
        text += length + (text[length] == ',');
    }
}

static void read_config(void)
{
    const char *word = setting("SHUNT_SIM_PRESET");
    int preset = word ? sim_preset_find(word) : 0;
    config.preset = &sim_presets[preset < 0 ? 0 : preset];
    config.gpus = (int)number("SHUNT_SIM_GPUS", 0, (unsigned)config.preset->gpus,
                              (unsigned)config.preset->gpus);
    config.sliced = config.preset->gpus > 1 && config.preset->bus[0] == config.preset->bus[1];
    config.boards = config.sliced ? 1 : config.gpus;
    config.faults = read_faults(setting("SHUNT_SIM_FAULT"));
    if (!config.preset->p2p)
        config.faults |= 1u << SIM_FAULT_NOP2P;
    config.sms = number("SHUNT_SIM_SMS", 1, 132, 4);
    config.memory = (size_t)number("SHUNT_SIM_MEMORY", 1, 1u << 20, config.preset->memory) << 20;
    config.blocking = number("CUDA_LAUNCH_BLOCKING", 0, 1, 0);
    read_visible(getenv("CUDA_VISIBLE_DEVICES"));
}

const struct sim_config *sim_config(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, read_config);
    return &config;
}

bool sim_has_fault(enum sim_fault fault)
{
    return sim_config()->faults >> fault & 1;
}

void sim_uuid(int gpu, unsigned char uuid[16])
{
    char text[320];
    int length = snprintf(text, sizeof text, "%d ", gpu);
    gethostname(text + length, sizeof text - (size_t)length - 1);
    text[sizeof text - 1] = 0;
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a, one byte of it per round */
    for (int i = 0; i < 16; i++) {
        for (const char *c = text; *c; c++)
            hash = (hash ^ (unsigned char)*c) * 0x100000001b3u;
        uuid[i] = (unsigned char)(hash >> 40);
    }
}

void sim_uuid_text(int gpu, char text[41])
{
    unsigned char u[16];
    sim_uuid(gpu, u);
    int length = snprintf(text, 41, "%s", config.sliced && gpu < SIM_MAX_GPUS ? "MIG-" : "GPU-");
    for (int i = 0; i < 16; i++)
        length += snprintf(text + length, (size_t)(41 - length), "%s%02x",
                           i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", u[i]);
}

void sim_board_text(int board, char text[41])
{
    sim_uuid_text(config.sliced ? SIM_MAX_GPUS + board : board, text);
}
