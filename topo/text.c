/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Machines as text: what `nvidia-smi topo -m` prints, and lines that say more. All but the matrix may be missing:
 *
 *     # a comment
 *     machine two H200 of a rented node
 *     node left                                  another node begins: its lines follow, its GPUs count from 0 again
 *             GPU0    GPU1    NIC0    CPU Affinity    NUMA Affinity   GPU NUMA ID
 *     GPU0     X      NV18    PIX     0-47            0               N/A
 *     GPU1    NV18     X      SYS     48-95           1               N/A
 *     NIC0    PIX     SYS      X
 *     GPU0: pci 0000:44:00.0 uuid GPU-8f2b1c00-... mig name NVIDIA H200        name: to the end of the line
 *     NIC0: mlx5_0
 *     NIC0: pci 0000:45:00.0
 *     p2p no                                     the driver refuses peer access, of this node: yes, no, nvlink (only by it)
 *     refused GPU0 GPU1                          for these two
 *
 * Rows and columns of NICs are found by their names too (mlx5_0), as older versions print them. Legends are passed over.
 */
#include "topo/topo.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_WORDS (SHUNT_TOPO_GPUS + SHUNT_TOPO_NICS + 16)
#define MAX_BYTES (256 << 10)

enum peers { PEERS_YES, PEERS_NO, PEERS_NVLINK };

struct parser {
    struct shunt_topo *topo;
    char *error;
    int line;
    int first_gpu, first_nic; /* of this node */
    int node;
    char labels[MAX_WORDS][24]; /* of the columns of this node's matrix */
    int n_labels, n_gpus, n_nics;
    bool cpus, numa; /* what comes behind the links */
    bool seen[SHUNT_TOPO_GPUS]; /* the row of this GPU */
    enum peers peers[SHUNT_TOPO_NODES];
};

static bool fail(struct parser *p, const char *what, const char *word)
{
    snprintf(p->error, 160, "line %d: %s%s%.60s%s", p->line, what, *word ? " \"" : "", word, *word ? "\"" : "");
    return false;
}

static void keep(char *to, size_t size, const char *text)
{
    snprintf(to, size, "%.*s", (int)size - 1, text);
}

/* ---- lines ---- */

/* Without what makes terminals underline, and without a comment, which begins a word. ("NV#" is in legends.) */
static void clean(char *line)
{
    char *to = line;

    for (const char *from = line; *from; from++) {
        if (*from == '#' && (from == line || isspace((unsigned char)from[-1])))
            break;
        if (*from == '\033') {
            while (*from && !isalpha((unsigned char)*from))
                from++;
            if (*from == '\0')
                break;
            continue;
        }
        *to++ = *from;
    }
    *to = '\0';
}

static int split(char *line, char **words)
{
    int n = 0;
    char *rest = line;

    for (char *word; n < MAX_WORDS && (word = strtok_r(rest, " \t\r\n", &rest)) != NULL;)
        words[n++] = word;
    return n;
}

static bool is_gpu(const char *word)
{
    return strncmp(word, "GPU", 3) == 0 && isdigit((unsigned char)word[3]);
}

/* Columns that are neither begin with words of their own. */
static bool is_nic(const char *word)
{
    return (strncmp(word, "NIC", 3) == 0 && isdigit((unsigned char)word[3])) || strchr(word, '_') != NULL;
}

static int find_label(const struct parser *p, const char *label, size_t length)
{
    for (int i = 0; i < p->n_labels; i++)
        if (strlen(p->labels[i]) == length && memcmp(p->labels[i], label, length) == 0)
            return i;
    return -1;
}

/* ---- the matrix ---- */

static bool add_node(struct parser *p, const char *name)
{
    struct shunt_topo *topo = p->topo;

    if (topo->n_nodes == SHUNT_TOPO_NODES)
        return fail(p, "too many nodes", "");
    p->node = topo->n_nodes++;
    keep(topo->node_name[p->node], sizeof topo->node_name[0], name);
    p->first_gpu = topo->n;
    p->first_nic = topo->n_nics;
    p->n_labels = p->n_gpus = p->n_nics = 0;
    return true;
}

static bool add_column(struct parser *p, const char *label)
{
    struct shunt_topo *topo = p->topo;

    if (find_label(p, label, strlen(label)) >= 0 || strlen(label) >= sizeof p->labels[0])
        return fail(p, "a column that cannot be", label);
    if (is_gpu(label)) {
        if (topo->n == SHUNT_TOPO_GPUS || p->n_nics > 0)
            return fail(p, "too many GPUs, or one behind a NIC", label);
        topo->gpus[topo->n] = (struct shunt_topo_gpu){ .numa = -1, .node = (uint8_t)p->node };
        topo->n++;
        p->n_gpus++;
    } else {
        if (topo->n_nics == SHUNT_TOPO_NICS)
            return fail(p, "too many NICs", label);
        topo->nics[topo->n_nics] = (struct shunt_topo_nic){ .node = (uint8_t)p->node };
        keep(topo->nics[topo->n_nics++].name, sizeof topo->nics[0].name, label);
        p->n_nics++;
    }
    keep(p->labels[p->n_labels++], sizeof p->labels[0], label);
    return true;
}

static bool read_header(struct parser *p, char **words, int n)
{
    if (p->topo->n_nodes == 0 && !add_node(p, ""))
        return false;
    if (p->n_labels > 0)
        return fail(p, "a second matrix of the same node", "");
    p->cpus = p->numa = false;
    for (int i = 0; i < n; i++) {
        if ((is_gpu(words[i]) || is_nic(words[i])) && !p->cpus && !p->numa) {
            if (!add_column(p, words[i]))
                return false;
        } else if (strcmp(words[i], "CPU") == 0) {
            p->cpus = true;
        } else if (strcmp(words[i], "NUMA") == 0) {
            p->numa = true;
        }
    }
    return true;
}

/* What stands behind the links; a machine may not tell it. */
static void read_tail(const struct parser *p, struct shunt_topo_gpu *gpu, char **words, int n)
{
    if (p->cpus && n > 0 && isdigit((unsigned char)words[0][0]))
        keep(gpu->cpus, sizeof gpu->cpus, words[0]);
    if (p->numa && n > p->cpus && isdigit((unsigned char)words[p->cpus][0]))
        gpu->numa = (int16_t)atoi(words[p->cpus]);
}

static bool read_row(struct parser *p, int row, char **words, int n)
{
    struct shunt_topo *topo = p->topo;
    int i = p->first_gpu + row;

    if (row >= p->n_gpus)
        return true; /* of a NIC: the column has it */
    if (n < p->n_labels)
        return fail(p, "too few links in the row of", p->labels[row]);
    for (int column = 0; column < p->n_labels; column++) {
        struct shunt_link link;
        if (!shunt_link_parse(words[column], &link))
            return fail(p, "not a link:", words[column]);
        if ((link.kind == SHUNT_LINK_LOC) != (column == row))
            return fail(p, "X is for a GPU and itself, in the row of", p->labels[row]);
        if (column < p->n_gpus)
            topo->links[i][p->first_gpu + column] = link;
        else
            topo->nic_links[i][p->first_nic + column - p->n_gpus] = link;
    }
    p->seen[i] = true;
    read_tail(p, &topo->gpus[i], words + p->n_labels, n - p->n_labels);
    return true;
}

/* ---- what else is said ---- */

static bool read_gpu(struct parser *p, struct shunt_topo_gpu *gpu, char **words, int n)
{
    for (int i = 0; i < n; i++) {
        bool more = i + 1 < n;
        if (strcmp(words[i], "mig") == 0) {
            gpu->mig = true;
        } else if (strcmp(words[i], "name") == 0) {
            gpu->name[0] = '\0';
            for (i++; i < n; i++) {
                size_t length = strlen(gpu->name);
                snprintf(gpu->name + length, sizeof gpu->name - length, "%s%s", length ? " " : "", words[i]);
            }
        } else if (more && strcmp(words[i], "uuid") == 0) {
            keep(gpu->uuid, sizeof gpu->uuid, words[++i]);
        } else if (more && strcmp(words[i], "pci") == 0) {
            if (!shunt_pci_normal(words[++i], gpu->pci))
                return fail(p, "not a PCI address:", words[i]);
        } else {
            return fail(p, "of a GPU one says pci, uuid, mig, name, not", words[i]);
        }
    }
    return true;
}

static bool read_nic(struct parser *p, struct shunt_topo_nic *nic, char **words, int n)
{
    if (n == 2 && strcmp(words[0], "pci") == 0)
        return shunt_pci_normal(words[1], nic->pci) || fail(p, "not a PCI address:", words[1]);
    if (n != 1)
        return fail(p, "of a NIC one says its name, or pci and its address", "");
    keep(nic->name, sizeof nic->name, words[0]);
    return true;
}

static bool read_more(struct parser *p, char **words, int n)
{
    int label = find_label(p, words[0], strlen(words[0]) - 1);

    if (label < 0)
        return fail(p, "there is no column of this name:", words[0]);
    return label < p->n_gpus ? read_gpu(p, &p->topo->gpus[p->first_gpu + label], words + 1, n - 1) :
                               read_nic(p, &p->topo->nics[p->first_nic + label - p->n_gpus], words + 1, n - 1);
}

static bool read_peers(struct parser *p, const char *word)
{
    static const char *const words[] = { "yes", "no", "nvlink" };

    if (p->topo->n_nodes == 0 && !add_node(p, ""))
        return false;
    for (int i = 0; i < 3; i++) {
        if (strcmp(word, words[i]) == 0) {
            p->peers[p->node] = (enum peers)i;
            return true;
        }
    }
    return fail(p, "p2p is yes, no or nvlink, not", word);
}

static bool read_refused(struct parser *p, const char *a, const char *b)
{
    int i = find_label(p, a, strlen(a)), j = find_label(p, b, strlen(b));

    if (i < 0 || j < 0 || i >= p->n_gpus || j >= p->n_gpus)
        return fail(p, "refused is said of two GPUs, not", i < 0 ? a : b);
    p->topo->refused[p->first_gpu + i][p->first_gpu + j] = p->topo->refused[p->first_gpu + j][p->first_gpu + i] = true;
    return true;
}

static bool read_line(struct parser *p, char *line)
{
    char *words[MAX_WORDS], copy[96];
    struct shunt_link link;

    clean(line);
    line += strspn(line, " \t");
    keep(copy, sizeof copy, line);
    int n = split(line, words);
    if (n == 0 || strstr(copy, "Legend:") != NULL || (n > 1 && strcmp(words[1], "=") == 0))
        return true;
    int label = find_label(p, words[0], strlen(words[0]));
    bool link_follows = n > 1 && shunt_link_parse(words[1], &link);
    if (link_follows && label >= 0)
        return read_row(p, label, words + 1, n - 1);
    if (words[0][strlen(words[0]) - 1] == ':')
        return read_more(p, words, n);
    if (is_gpu(words[0]) && !link_follows)
        return read_header(p, words, n);
    if (strcmp(words[0], "machine") == 0) {
        keep(p->topo->title, sizeof p->topo->title, copy + strlen("machine") + (n > 1));
        p->topo->title[strcspn(p->topo->title, "\r\n")] = '\0';
        return true;
    }
    if (strcmp(words[0], "node") == 0 && n <= 2)
        return add_node(p, n == 2 ? words[1] : "");
    if (strcmp(words[0], "p2p") == 0 && n == 2)
        return read_peers(p, words[1]);
    if (strcmp(words[0], "refused") == 0 && n == 3)
        return read_refused(p, words[1], words[2]);
    return fail(p, "not understood:", words[0]);
}

/* ---- the whole ---- */

/* Each pair of a node must be told, and told alike from both sides. */
static bool check(struct parser *p)
{
    struct shunt_topo *topo = p->topo;

    p->line++;
    if (topo->n == 0)
        return fail(p, "no matrix with a GPU has come", "");
    for (int i = 0; i < topo->n; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d", i);
        if (!p->seen[i])
            return fail(p, "no row has come for GPU number", name);
        for (int j = 0; j < i; j++) {
            if (topo->gpus[i].node != topo->gpus[j].node)
                continue;
            if (memcmp(&topo->links[i][j], &topo->links[j][i], sizeof topo->links[i][j]) != 0)
                return fail(p, "the matrix is not symmetric in the row of GPU number", name);
            enum peers peers = p->peers[topo->gpus[i].node];
            if (peers == PEERS_NO || (peers == PEERS_NVLINK && topo->links[i][j].kind != SHUNT_LINK_NVL))
                topo->refused[i][j] = topo->refused[j][i] = true;
        }
    }
    return true;
}

static bool read_lines(struct parser *p, char *text)
{
    for (char *line = text; *line;) {
        size_t length = strcspn(line, "\n");
        bool last = line[length] == '\0';
        line[length] = '\0';
        p->line++;
        if (!read_line(p, line))
            return false;
        line += length + !last;
    }
    return check(p);
}

enum shunt_status shunt_topo_parse(const char *text, struct shunt_topo *topo, char error[160])
{
    char *copy = strdup(text);
    struct parser *p = calloc(1, sizeof *p);
    enum shunt_status status = SHUNT_ERR_MEMORY;

    memset(topo, 0, sizeof *topo);
    snprintf(error, 160, "no memory");
    if (copy != NULL && p != NULL) {
        p->topo = topo;
        p->error = error;
        status = read_lines(p, copy) ? SHUNT_OK : SHUNT_ERR_INVALID;
        shunt_topo_finish(topo);
    }
    free(p);
    free(copy);
    return status;
}

/* The bytes of a file with a NUL behind; NULL with errno set. */
static char *read_all(int fd)
{
    char *text = malloc(MAX_BYTES);
    ssize_t n = 0, got = 0;

    while (text != NULL && got < MAX_BYTES - 1 && (n = read(fd, text + got, (size_t)(MAX_BYTES - 1 - got))) > 0)
        got += n;
    if (text != NULL && n < 0) {
        free(text);
        return NULL;
    }
    if (text != NULL)
        text[got] = '\0';
    return text;
}

enum shunt_status shunt_topo_load(const char *path, struct shunt_topo *topo, char error[160])
{
    int before = errno, fd = open(path, O_RDONLY | O_CLOEXEC);
    char *text = fd >= 0 ? read_all(fd) : NULL;
    enum shunt_status status = SHUNT_ERR_SYSTEM;

    if (text == NULL)
        snprintf(error, 160, "%s", strerror(errno));
    else
        status = shunt_topo_parse(text, topo, error);
    if (status == SHUNT_OK)
        keep(topo->source, sizeof topo->source, path);
    free(text);
    if (fd >= 0)
        close(fd);
    errno = before;
    return status;
}

/* ---- writing ---- */

struct writer {
    const struct shunt_topo *topo;
    void (*put)(void *context, const char *piece);
    void *context;
};

__attribute__((format(printf, 2, 3))) static void write_piece(const struct writer *w, const char *format, ...)
{
    char piece[256];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(piece, sizeof piece, format, arguments);
    va_end(arguments);
    w->put(w->context, piece);
}

static int first_of(const struct writer *w, int node)
{
    int first = 0;

    while (first < w->topo->n && w->topo->gpus[first].node != node)
        first++;
    return first;
}

static void write_row(const struct writer *w, int i, int first)
{
    const struct shunt_topo *topo = w->topo;
    const struct shunt_topo_gpu *gpu = &topo->gpus[i];
    char word[16], label[16];

    snprintf(label, sizeof label, "GPU%d", i - first);
    write_piece(w, "%-8s", label);
    for (int j = 0; j < topo->n; j++) {
        if (topo->gpus[j].node != gpu->node)
            continue;
        shunt_link_print(topo->links[i][j], word);
        write_piece(w, "%-8s", word);
    }
    for (int k = 0; k < topo->n_nics; k++) {
        if (topo->nics[k].node != gpu->node)
            continue;
        shunt_link_print(topo->nic_links[i][k], word);
        write_piece(w, "%-8s", word);
    }
    write_piece(w, "%-16s", *gpu->cpus ? gpu->cpus : "N/A");
    if (gpu->numa >= 0)
        write_piece(w, "%d\n", gpu->numa);
    else
        write_piece(w, "N/A\n");
}

static void write_matrix(const struct writer *w, int node)
{
    const struct shunt_topo *topo = w->topo;
    int first = first_of(w, node), nics = 0;
    char label[16];

    write_piece(w, "%-8s", "");
    for (int i = first; i < topo->n && topo->gpus[i].node == node; i++) {
        snprintf(label, sizeof label, "GPU%d", i - first);
        write_piece(w, "%-8s", label);
    }
    for (int k = 0; k < topo->n_nics; k++) {
        snprintf(label, sizeof label, "NIC%d", nics);
        if (topo->nics[k].node == node && ++nics)
            write_piece(w, "%-8s", label);
    }
    write_piece(w, "%-16s%s\n", "CPU Affinity", "NUMA Affinity");
    for (int i = first; i < topo->n && topo->gpus[i].node == node; i++)
        write_row(w, i, first);
}

static void write_devices(const struct writer *w, int node)
{
    const struct shunt_topo *topo = w->topo;
    int first = first_of(w, node), nics = 0;

    for (int i = first; i < topo->n && topo->gpus[i].node == node; i++) {
        const struct shunt_topo_gpu *gpu = &topo->gpus[i];
        if (!*gpu->pci && !*gpu->uuid && !gpu->mig && !*gpu->name)
            continue;
        write_piece(w, "GPU%d:%s%s%s%s%s", i - first, *gpu->pci ? " pci " : "", gpu->pci, *gpu->uuid ? " uuid " : "",
                    gpu->uuid, gpu->mig ? " mig" : "");
        write_piece(w, "%s%s\n", *gpu->name ? " name " : "", gpu->name);
    }
    for (int k = 0; k < topo->n_nics; k++) {
        if (topo->nics[k].node != node)
            continue;
        write_piece(w, "NIC%d: %s\n", nics, topo->nics[k].name);
        if (*topo->nics[k].pci)
            write_piece(w, "NIC%d: pci %s\n", nics, topo->nics[k].pci);
        nics++;
    }
    for (int i = first; i < topo->n && topo->gpus[i].node == node; i++)
        for (int j = first; j < i; j++)
            if (topo->refused[i][j] && !topo->gpus[i].mig && !topo->gpus[j].mig)
                write_piece(w, "refused GPU%d GPU%d\n", j - first, i - first);
}

void shunt_topo_write(const struct shunt_topo *topo, void (*put)(void *context, const char *piece), void *context)
{
    const struct writer w = { topo, put, context };

    if (*topo->title)
        write_piece(&w, "machine %s\n", topo->title);
    for (int node = 0; node < topo->n_nodes; node++) {
        if (topo->n_nodes > 1 || *topo->node_name[node])
            write_piece(&w, "node %s\n", topo->node_name[node]);
        write_matrix(&w, node);
        write_devices(&w, node);
    }
}
