/* SPDX-License-Identifier: MIT */
/*
 * Pictures of a limit, ready to be drawn by picture.c: what is left over time while somebody asks too much and
 * then rests, and, for warmup, the price of a unit against the units saved.
 */
#ifndef WEIR_CLI_FIGURE_H
#define WEIR_CLI_FIGURE_H

#include "core/limit.h"

#define FIGURE_POINTS_MAX 4096
#define FIGURE_TICKS_MAX  12
#define FIGURE_TITLE_MAX  160

struct figure_point {
    double x, y;
};

struct figure_tick {
    double at;
    char label[96];
    bool guide; /* a line across the picture */
};

struct figure_axis {
    double max; /* axes begin at 0 */
    char title[64];
    struct figure_tick ticks[FIGURE_TICKS_MAX];
    size_t tick_count;
};

struct figure {
    char title[FIGURE_TITLE_MAX];
    struct figure_axis x, y;
    struct figure_point points[FIGURE_POINTS_MAX]; /* one line, x never decreases */
    size_t point_count;
    double refused[FIGURE_POINTS_MAX]; /* when somebody was refused */
    size_t refused_count;
    double shade_from, shade_to; /* the area under the line between them; equal: none */
    char shade_label[48];
};

/* Units left over time (leaky-bucket: units in the queue): rest, a burst, twice the rate, rest. Plays the
 * scene with takes and peeks in virtual time. false: nothing to draw, or no memory. */
bool figure_time(const struct limit *limit, struct figure *figure);

/* warmup: what a unit costs against the units saved. false: another algorithm. */
bool figure_curve(const struct limit *limit, struct figure *figure);

#endif
