/* SPDX-License-Identifier: MIT */
#include "cli/picture.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "cli/term.h"

#define COLUMNS_MIN 16
#define COLUMNS_MAX 72
#define ROWS        10
#define LABEL_MAX   24
#define DOTS_X      2 /* dots of a braille character */
#define DOTS_Y      4

struct chart_canvas {
    int columns;                            /* of characters */
    unsigned char cells[ROWS][COLUMNS_MAX]; /* bit y * 2 + x: a dot */
    bool rows_marked[ROWS];                 /* a guide goes across */
    bool columns_marked[COLUMNS_MAX];
};

/* Characters of the frame, in UTF-8 and in ASCII. */
struct chart_glyphs {
    const char *tick_y, *side, *corner, *bottom, *tick_x, *guide_x, *guide_y, *refused;
};

static const struct chart_glyphs frame_utf8 = {"┤", "│", "└", "─", "┬", "┊", "┄", "×"};
static const struct chart_glyphs frame_ascii = {"+", "|", "+", "-", "+", ":", ".", "x"};

static void set_dot(struct chart_canvas *canvas, int x, int y)
{
    ASSERT(x >= 0 && x < canvas->columns * DOTS_X && y >= 0 && y < ROWS * DOTS_Y);
    canvas->cells[y / DOTS_Y][x / DOTS_X] |= (unsigned char)(1 << (y % DOTS_Y * DOTS_X + x % DOTS_X));
}

static int scale_to_steps(double value, double max, int steps)
{
    ASSERT(max > 0 && value >= 0);
    double at = value / max * (steps - 1) + 0.5;
    return at < 0 ? 0 : at >= steps ? steps - 1 : (int)at;
}

static int dot_x(const struct chart_canvas *canvas, const struct figure *figure, double x)
{
    return scale_to_steps(x, figure->x.max, canvas->columns * DOTS_X);
}

static int dot_y(const struct figure *figure, double y)
{
    return ROWS * DOTS_Y - 1 - scale_to_steps(y, figure->y.max, ROWS * DOTS_Y);
}

/* Every dot of the longer direction, so that the line has no gaps. */
static void draw_line(struct chart_canvas *canvas, int x0, int y0, int x1, int y1)
{
    int steps = abs(x1 - x0) > abs(y1 - y0) ? abs(x1 - x0) : abs(y1 - y0);
    for (int i = 0; i <= steps; i++) {
        double part = steps == 0 ? 0 : (double)i / steps;
        set_dot(canvas, (int)(x0 + (x1 - x0) * part + 0.5), (int)(y0 + (y1 - y0) * part + 0.5));
    }
}

static void draw_figure(struct chart_canvas *canvas, const struct figure *figure)
{
    for (size_t i = 1; i < figure->point_count; i++) {
        const struct figure_point *a = &figure->points[i - 1], *b = &figure->points[i];
        draw_line(canvas, dot_x(canvas, figure, a->x), dot_y(figure, a->y), dot_x(canvas, figure, b->x),
                  dot_y(figure, b->y));
    }
    for (size_t i = 0; i < figure->x.tick_count; i++)
        if (figure->x.ticks[i].guide)
            canvas->columns_marked[dot_x(canvas, figure, figure->x.ticks[i].at) / DOTS_X] = true;
    for (size_t i = 0; i < figure->y.tick_count; i++)
        if (figure->y.ticks[i].guide)
            canvas->rows_marked[dot_y(figure, figure->y.ticks[i].at) / DOTS_Y] = true;
}

/* Braille numbers its dots by columns, and those of the lowest row last. */
static void put_braille(FILE *file, unsigned char cell)
{
    static const unsigned char bits[] = {0x01, 0x08, 0x02, 0x10, 0x04, 0x20, 0x40, 0x80};
    unsigned pattern = 0;
    for (unsigned i = 0; i < sizeof bits; i++)
        if (cell & (1u << i))
            pattern |= bits[i];
    const char utf8[] = {(char)0xe2, (char)(0xa0 | pattern >> 6), (char)(0x80 | (pattern & 0x3f)), '\0'};
    fputs(utf8, file);
}

/* The nearest there is: a line high, in the middle or low in the cell, or one through it. */
static char ascii_of(unsigned char cell)
{
    bool rows[DOTS_Y];
    int set = 0;
    for (int y = 0; y < DOTS_Y; y++) {
        rows[y] = (cell >> (y * DOTS_X) & 3) != 0;
        set += rows[y];
    }
    if (set > 2)
        return '|';
    return rows[0] ? '\'' : rows[3] ? '.' : '-';
}

static void chart_put_cell(FILE *file, const struct chart_canvas *canvas, const struct chart_glyphs *glyphs,
                           int row, int column)
{
    unsigned char cell = canvas->cells[row][column];
    if (cell && term_utf8())
        put_braille(file, cell);
    else if (cell)
        fputc(ascii_of(cell), file);
    else if (canvas->columns_marked[column])
        fputs(glyphs->guide_x, file);
    else
        fputs(canvas->rows_marked[row] ? glyphs->guide_y : " ", file);
}

/* The label of a row of characters, or NULL. */
static const char *row_label(const struct figure *figure, int row)
{
    for (size_t i = figure->y.tick_count; i > 0; i--)
        if (dot_y(figure, figure->y.ticks[i - 1].at) / DOTS_Y == row)
            return figure->y.ticks[i - 1].label;
    return NULL;
}

static void chart_put_padded(FILE *file, const char *text, int width)
{
    fprintf(file, "%*s%s", width - term_columns(text, strlen(text)), "", text);
}

static int label_width(const struct figure *figure)
{
    int width = 0;
    for (size_t i = 0; i < figure->y.tick_count; i++) {
        int columns = term_columns(figure->y.ticks[i].label, strlen(figure->y.ticks[i].label));
        width = columns > width ? columns : width;
    }
    return width < 7 ? 7 : width > LABEL_MAX ? LABEL_MAX : width; /* room for "refused" */
}

static void chart_put_rows(FILE *file, const struct chart_canvas *canvas, const struct figure *figure,
                           const struct chart_glyphs *glyphs, int width)
{
    for (int row = 0; row < ROWS; row++) {
        const char *label = row_label(figure, row);
        chart_put_padded(file, label ? label : "", width);
        fprintf(file, " %s%s", label ? glyphs->tick_y : glyphs->side, term_colour(file, TERM_LINE));
        int last = canvas->columns - 1;
        while (last >= 0 && !canvas->cells[row][last] && !canvas->columns_marked[last] &&
               !canvas->rows_marked[row])
            last--;
        for (int column = 0; column <= last; column++)
            chart_put_cell(file, canvas, glyphs, row, column);
        fprintf(file, "%s\n", term_colour(file, TERM_PLAIN));
    }
}

static void chart_put_axis(FILE *file, const struct chart_canvas *canvas, const struct figure *figure,
                           const struct chart_glyphs *glyphs, int width)
{
    fprintf(file, "%*s %s", width, "", glyphs->corner);
    for (int column = 0; column < canvas->columns; column++) {
        bool tick = false;
        for (size_t i = 0; i < figure->x.tick_count; i++)
            tick |= dot_x(canvas, figure, figure->x.ticks[i].at) / DOTS_X == column;
        fputs(tick ? glyphs->tick_x : glyphs->bottom, file);
    }
    fputc('\n', file);
}

static void chart_put_refused(FILE *file, const struct chart_canvas *canvas, const struct figure *figure,
                              const struct chart_glyphs *glyphs, int width)
{
    bool refused[COLUMNS_MAX] = {false};
    int last = -1;
    for (size_t i = 0; i < figure->refused_count; i++) {
        int column = dot_x(canvas, figure, figure->refused[i]) / DOTS_X;
        refused[column] = true;
        last = column > last ? column : last;
    }
    if (last < 0)
        return;
    chart_put_padded(file, "refused", width);
    fprintf(file, "  %s", term_colour(file, TERM_BAD));
    for (int column = 0; column <= last; column++)
        fputs(refused[column] ? glyphs->refused : " ", file);
    fprintf(file, "%s\n", term_colour(file, TERM_PLAIN));
}

/* Labels under their ticks; one that would touch its neighbour is left out, the title comes last. */
static void chart_put_x_labels(FILE *file, const struct chart_canvas *canvas, const struct figure *figure,
                               int width)
{
    int at = 0;
    fprintf(file, "%*s", width + 2, "");
    for (size_t i = 0; i < figure->x.tick_count; i++) {
        const char *label = figure->x.ticks[i].label;
        int columns = term_columns(label, strlen(label));
        int middle = dot_x(canvas, figure, figure->x.ticks[i].at) / DOTS_X;
        int begin = middle - columns / 2 < 0 ? 0 : middle - columns / 2;
        if (i > 0 && begin < at + 1)
            continue;
        fprintf(file, "%*s%s", begin - at, "", label);
        at = begin + columns;
    }
    fputc('\n', file);
}

void chart_print(FILE *file, const struct figure *figure)
{
    const struct chart_glyphs *glyphs = term_utf8() ? &frame_utf8 : &frame_ascii;
    int width = label_width(figure);
    struct chart_canvas canvas = {
        .columns = (int)clamp64(term_width(file) - width - 4, COLUMNS_MIN, COLUMNS_MAX),
    };
    draw_figure(&canvas, figure);
    char title[FIGURE_TITLE_MAX * 2];
    snprintf(title, sizeof title, "%s against %s: %s", figure->y.title, figure->x.title, figure->title);
    fputs("  ", file);
    term_wrap(file, title, 2, 2, term_width(file));
    chart_put_rows(file, &canvas, figure, glyphs, width);
    chart_put_axis(file, &canvas, figure, glyphs, width);
    chart_put_refused(file, &canvas, figure, glyphs, width);
    chart_put_x_labels(file, &canvas, figure, width);
}

/*
 * SVG. Colours are chosen to be read on white and on black paper alike; nothing is painted behind them.
 */

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
