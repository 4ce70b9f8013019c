/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A machine as a picture (SVG): three panels, in each the GPUs of every node on a circle: the links, the rings, and the two
 * trees. Colours and widths say what kind a link is; a legend says it in words.
 */
#include <math.h>
#include <string.h>

#include "tools/topo_view.h"

#define PANEL  420.0 /* pixels of a node's square */
#define MARGIN 24.0
#define TITLE  40.0

static const struct {
    const char *colour, *dash;
    double width;
} styles[SHUNT_NLINKS] = {
    [SHUNT_LINK_NVL] = { "#3a9d23", "", 3 },     [SHUNT_LINK_PIX] = { "#1f5fbf", "", 2.5 },
    [SHUNT_LINK_PXB] = { "#4f9be8", "", 2 },     [SHUNT_LINK_PHB] = { "#e08a1e", "", 1.5 },
    [SHUNT_LINK_NODE] = { "#c2a878", "", 1 },    [SHUNT_LINK_SYS] = { "#b0b0b0", "3,3", 0.8 },
    [SHUNT_LINK_NET] = { "#8050a0", "6,4", 1 },  [SHUNT_LINK_UNKNOWN] = { "#d0d0d0", "1,4", 0.8 },
};

static const char *const ring_colours[] = { "#d62728", "#1f77b4", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf",
                                            "#8c564b", "#e377c2", "#7f7f7f", "#bcbd22", "#393b79", "#637939" };

struct point {
    double x, y;
};

static void put_text(FILE *to, const char *text)
{
    for (; *text; text++) {
        if (*text == '<' || *text == '>' || *text == '&')
            fprintf(to, "&#%d;", *text);
        else
            putc((unsigned char)*text < 32 ? ' ' : *text, to);
    }
}

/* Nodes stand side by side. */
static struct point place_of(const struct shunt_topo *machine, int gpu, double left, double top)
{
    int node = machine->gpus[gpu].node, first = 0, n = 0;

    for (int i = 0; i < machine->n; i++) {
        n += machine->gpus[i].node == node;
        first += machine->gpus[i].node < node;
    }
    double radius = n > 1 ? PANEL / 2 - 60 : 0, angle = 2 * M_PI * (gpu - first + 0.5) / n - M_PI / 2;
    return (struct point){ left + node * PANEL + PANEL / 2 + radius * cos(angle),
                           top + TITLE + PANEL / 2 + radius * sin(angle) };
}

static void draw_line(FILE *to, struct point a, struct point b, const char *colour, double width, const char *dash,
                      const char *marker)
{
    fprintf(to, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" stroke-width=\"%.1f\"", a.x, a.y,
            b.x, b.y, colour, width);
    if (*dash)
        fprintf(to, " stroke-dasharray=\"%s\"", dash);
    if (*marker)
        fprintf(to, " marker-end=\"url(#%s)\"", marker);
    fprintf(to, "/>\n");
}

static void draw_gpus(const struct topo_view *view, FILE *to, double left, double top)
{
    static const char *const fills[] = { "#fff7d6", "#dcecff", "#e4f7df", "#f7e1ef" };
    const struct shunt_topo *machine = &view->machine;

    for (int i = 0; i < machine->n; i++) {
        struct point at = place_of(machine, i, left, top);
        char word[64];
        int numa = machine->gpus[i].numa;
        topo_gpu_word(machine, i, word);
        fprintf(to, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"24\" fill=\"%s\" stroke=\"#404040\"/>\n", at.x, at.y,
                fills[numa > 0 ? numa % 4 : 0]);
        fprintf(to, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\" font-size=\"11\">", at.x, at.y + 4);
        put_text(to, strchr(word, ':') ? strchr(word, ':') + 1 : word);
        fprintf(to, "</text>\n");
    }
}

static void draw_title(FILE *to, double left, double top, const char *text)
{
    fprintf(to, "<text x=\"%.1f\" y=\"%.1f\" font-size=\"16\" font-weight=\"bold\">%s</text>\n", left + MARGIN,
            top + TITLE - 12, text);
}

static void draw_links(const struct topo_view *view, FILE *to, double left, double top)
{
    const struct shunt_topo *machine = &view->machine;
    const char *why;

    draw_title(to, left, top, "Links");
    for (int kind = SHUNT_LINK_UNKNOWN; kind > SHUNT_LINK_LOC; kind--) { /* the near ones on top */
        for (int i = 0; i < machine->n; i++) {
            for (int j = i + 1; j < machine->n; j++) {
                if (machine->links[i][j].kind != kind || kind == SHUNT_LINK_NET)
                    continue;
                bool direct = shunt_topo_via(machine, &view->limits, i, j, &why) == SHUNT_VIA_PEER;
                double lanes = kind == SHUNT_LINK_NVL && !machine->switched ? machine->links[i][j].lanes : 1;
                draw_line(to, place_of(machine, i, left, top), place_of(machine, j, left, top), styles[kind].colour,
                          styles[kind].width * (lanes > 3 ? 2 : lanes > 1 ? 1.5 : 1),
                          direct || *styles[kind].dash ? styles[kind].dash : "6,4", "");
            }
        }
    }
    draw_gpus(view, to, left, top);
}

/* Beside each other where two rings take the same hop. */
static struct point beside(struct point p, struct point a, struct point b, double by)
{
    double length = hypot(b.x - a.x, b.y - a.y);

    if (length > 0) {
        p.x += by * (b.y - a.y) / length;
        p.y -= by * (b.x - a.x) / length;
    }
    return p;
}

static void draw_rings(const struct topo_view *view, FILE *to, double left, double top)
{
    const struct shunt_topo *machine = &view->machine;

    draw_title(to, left, top, "Rings");
    for (int r = 0; r < view->n_rings && machine->n > 1; r++) {
        for (int k = 0; k < machine->n; k++) {
            int i = view->rings[r].order[k], j = view->rings[r].order[(k + 1) % machine->n];
            struct point a = place_of(machine, i < j ? i : j, left, top), b = place_of(machine, i < j ? j : i, left, top);
            double by = 4.0 * (r - (view->n_rings - 1) / 2.0);
            draw_line(to, beside(a, a, b, by), beside(b, a, b, by),
                      ring_colours[r % (int)(sizeof ring_colours / sizeof *ring_colours)], 2.5, "", "");
        }
    }
    draw_gpus(view, to, left, top);
}

static void draw_trees(const struct topo_view *view, FILE *to, double left, double top)
{
    const struct shunt_topo *machine = &view->machine;

    draw_title(to, left, top, "Trees: to the children");
    for (int t = 0; t < 2; t++) {
        for (int i = 0; i < machine->n; i++) {
            int parent = view->trees[t].parent[i];
            if (parent == SHUNT_TREE_NONE)
                continue;
            struct point a = place_of(machine, parent, left, top), b = place_of(machine, i, left, top);
            double length = hypot(b.x - a.x, b.y - a.y), stop = length > 30 ? (length - 28) / length : 1;
            struct point end = { a.x + (b.x - a.x) * stop, a.y + (b.y - a.y) * stop };
            draw_line(to, beside(a, a, b, 3), beside(end, a, b, 3), ring_colours[t], 2, "", t ? "arrow1" : "arrow0");
        }
    }
    draw_gpus(view, to, left, top);
}

static void draw_legend(const struct topo_view *view, FILE *to, double top)
{
    int row = 0;

    for (int kind = SHUNT_LINK_NVL; kind < SHUNT_NLINKS; kind++) {
        bool there = false;
        for (int i = 0; i < view->machine.n; i++)
            for (int j = 0; j < i; j++)
                there |= view->machine.links[i][j].kind == kind;
        if (!there)
            continue;
        double y = top + 18.0 * row++;
        draw_line(to, (struct point){ MARGIN, y }, (struct point){ MARGIN + 40, y }, styles[kind].colour,
                  styles[kind].width, styles[kind].dash, "");
        fprintf(to, "<text x=\"%.1f\" y=\"%.1f\" font-size=\"12\">%s: %s</text>\n", MARGIN + 50, y + 4,
                kind == SHUNT_LINK_NVL ? "NV#" : shunt_link_word((enum shunt_link_kind)kind),
                shunt_link_text((enum shunt_link_kind)kind));
    }
    fprintf(to, "<text x=\"%.1f\" y=\"%.1f\" font-size=\"12\">Broken lines in strong colours: no peer access there. "
                "Fill: NUMA node.</text>\n", MARGIN, top + 18.0 * row + 6);
}

void topo_draw(const struct topo_view *view, FILE *to)
{
    const double across = PANEL * (view->machine.n_nodes > 0 ? view->machine.n_nodes : 1);
    const double width = 3 * across + 2 * MARGIN, height = PANEL + 2 * TITLE + 150;

    fprintf(to, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" "
                "height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\" font-family=\"sans-serif\">\n",
            width, height, width, height);
    fprintf(to, "<defs>\n");
    for (int t = 0; t < 2; t++)
        fprintf(to, "<marker id=\"arrow%d\" markerWidth=\"8\" markerHeight=\"8\" refX=\"5\" refY=\"3\" orient=\"auto\">"
                    "<path d=\"M0,0 L6,3 L0,6 z\" fill=\"%s\"/></marker>\n", t, ring_colours[t]);
    fprintf(to, "</defs>\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n");
    fprintf(to, "<text x=\"%.1f\" y=\"26\" font-size=\"18\">", MARGIN);
    put_text(to, *view->machine.title ? view->machine.title : view->machine.source);
    fprintf(to, "</text>\n");
    draw_links(view, to, 0, TITLE - 10);
    draw_rings(view, to, across + MARGIN, TITLE - 10);
    draw_trees(view, to, 2 * across + 2 * MARGIN, TITLE - 10);
    draw_legend(view, to, PANEL + 2 * TITLE + 10);
    fprintf(to, "</svg>\n");
}
