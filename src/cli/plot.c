/* SPDX-License-Identifier: MIT */
/*
 * Colours are chosen to be read on white and on black paper alike; nothing is painted behind them.
 */
#include "cli/plot.h"

#include <string.h>

#include "cli/term.h"

/* Where things are, in pixels. */
#define WIDTH      760
#define HEIGHT     360 /* of one figure with its heading and labels */
#define LEFT       120
#define RIGHT      30
#define TOP        88
#define BOTTOM     58
#define BOX_WIDTH  (WIDTH - LEFT - RIGHT)
#define BOX_HEIGHT (HEIGHT - TOP - BOTTOM)

static void svg_put_text(FILE *file, const char *text)
{
    while (*text) {
        size_t plain = strcspn(text, "&<>");
        term_put(file, text, plain);
        text += plain;
        if (*text)
            fputs(*text == '&' ? "&amp;" : *text == '<' ? "&lt;" : "&gt;", file), text++;
    }
}

static void svg_put_label(FILE *file, double x, double y, const char *class, const char *anchor,
                          const char *text)
{
    fprintf(file, "<text class=\"%s\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", class, x, y, anchor);
    svg_put_text(file, text);
    fputs("</text>\n", file);
}

static void svg_put_line(FILE *file, const char *class, double x0, double y0, double x1, double y1)
{
    fprintf(file, "<line class=\"%s\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n", class, x0, y0, x1,
            y1);
}

static double pixel_x(const struct figure *figure, double x)
{
    return LEFT + x / figure->x.max * BOX_WIDTH;
}

static double pixel_y(const struct figure *figure, double y)
{
    return TOP + (1 - y / figure->y.max) * BOX_HEIGHT;
}

static void svg_put_points(FILE *file, const struct figure *figure)
{
    fputs("<polyline class=\"line\" points=\"", file);
    for (size_t i = 0; i < figure->point_count; i++)
        fprintf(file, "%s%.1f,%.1f", i ? " " : "", pixel_x(figure, figure->points[i].x),
                pixel_y(figure, figure->points[i].y));
    fputs("\"/>\n", file);
}

/* The area under the line between two of its corners. */
static void svg_put_shade(FILE *file, const struct figure *figure)
{
    double from = figure->shade_from, to = figure->shade_to;
    if (!(to > from))
        return;
    fprintf(file, "<polygon class=\"shade\" points=\"%.1f,%d", pixel_x(figure, from), TOP + BOX_HEIGHT);
    for (size_t i = 0; i < figure->point_count; i++)
        if (figure->points[i].x >= from && figure->points[i].x <= to)
            fprintf(file, " %.1f,%.1f", pixel_x(figure, figure->points[i].x),
                    pixel_y(figure, figure->points[i].y));
    fprintf(file, " %.1f,%d\"/>\n", pixel_x(figure, to), TOP + BOX_HEIGHT);
    svg_put_label(file, pixel_x(figure, (from + to) / 2), TOP + BOX_HEIGHT - 12, "small", "middle",
                  figure->shade_label);
}

static void svg_put_x_axis(FILE *file, const struct figure *figure)
{
    double bottom = TOP + BOX_HEIGHT;
    svg_put_line(file, "axis", LEFT, bottom, LEFT + BOX_WIDTH, bottom);
    for (size_t i = 0; i < figure->x.tick_count; i++) {
        const struct figure_tick *tick = &figure->x.ticks[i];
        double x = pixel_x(figure, tick->at);
        if (tick->guide)
            svg_put_line(file, "guide", x, TOP, x, bottom);
        svg_put_line(file, "axis", x, bottom, x, bottom + 5);
        svg_put_label(file, x, bottom + 23, "small", x > LEFT + BOX_WIDTH - 20 ? "end" : "middle",
                      tick->label);
    }
    svg_put_label(file, LEFT + BOX_WIDTH / 2.0, bottom + 45, "small", "middle", figure->x.title);
}

static void svg_put_y_axis(FILE *file, const struct figure *figure)
{
    svg_put_line(file, "axis", LEFT, TOP, LEFT, TOP + BOX_HEIGHT);
    for (size_t i = 0; i < figure->y.tick_count; i++) {
        const struct figure_tick *tick = &figure->y.ticks[i];
        double y = pixel_y(figure, tick->at);
        svg_put_line(file, tick->guide ? "guide" : "grid", LEFT, y, LEFT + BOX_WIDTH, y);
        svg_put_line(file, "axis", LEFT - 5, y, LEFT, y);
        svg_put_label(file, LEFT - 9, y + 4, "small", "end", tick->label);
    }
    svg_put_label(file, LEFT, TOP - 14, "small", "middle", figure->y.title);
}

static void svg_put_refused(FILE *file, const struct figure *figure)
{
    double bottom = TOP + BOX_HEIGHT;
    if (figure->refused_count == 0)
        return;
    fputs("<path class=\"refused\" d=\"", file);
    for (size_t i = 0; i < figure->refused_count; i++)
        fprintf(file, "M%.1f %.1fv7", pixel_x(figure, figure->refused[i]), bottom + 2);
    fputs("\"/>\n", file);
    svg_put_label(file, LEFT + BOX_WIDTH, bottom + 45, "refused-label", "end", "| refused");
}

void plot_open(FILE *file, size_t count)
{
    int height = HEIGHT * (int)count;
    fprintf(file,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\">\n"
            "<style>\n"
            "text { font-family: system-ui, \"DejaVu Sans\", Helvetica, Arial, sans-serif; fill: #7a7a7a }\n"
            ".heading { font-size: 17px; font-weight: 600 }\n"
            ".small, .refused-label { font-size: 12.5px }\n"
            ".axis { stroke: #7a7a7a; stroke-width: 1.2 }\n"
            ".grid { stroke: #7a7a7a; stroke-opacity: 0.22 }\n"
            ".guide { stroke: #7a7a7a; stroke-opacity: 0.7; stroke-dasharray: 3 4 }\n"
            ".line { fill: none; stroke: #2f86c9; stroke-width: 2.2; stroke-linejoin: round }\n"
            ".shade { fill: #2f86c9; fill-opacity: 0.16 }\n"
            ".refused { stroke: #d1603d; stroke-width: 1.6; fill: none }\n"
            ".refused-label { fill: #d1603d }\n"
            "</style>\n",
            WIDTH, height, WIDTH, height);
}

void plot_figure(FILE *file, size_t index, const char *heading, const struct figure *figure)
{
    fprintf(file, "<g transform=\"translate(0 %d)\">\n", HEIGHT * (int)index);
    svg_put_label(file, 24, 26, "heading", "start", heading);
    svg_put_label(file, 24, 46, "small", "start", figure->title);
    svg_put_y_axis(file, figure);
    svg_put_x_axis(file, figure);
    svg_put_shade(file, figure);
    svg_put_refused(file, figure);
    svg_put_points(file, figure);
    fputs("</g>\n", file);
}

void plot_close(FILE *file)
{
    fputs("</svg>\n", file);
}
