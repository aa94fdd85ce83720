/* Line charts as SVG files. Plain C, no Coxswain in here. */
#ifndef MODES_SVG_H
#define MODES_SVG_H

#include <stdbool.h>
#include <stddef.h>

struct svg_line {
    const char *label;
    int colour; /* 0 to 5 */
    bool dashed;
    const double *x;
    const double *y;
    size_t n;
};

struct svg_chart {
    const char *title;
    const char *x_label; /* with the unit */
    const char *y_label;
    double y_most; /* what is above is cut off */
    const struct svg_line *lines;
    size_t n_lines;
};

/* Writes a chart with axes and a legend, in colours for light and for dark pages. Numbers
 * that are not finite are left out. 0, or -1 with errno set. */
int svg_write(const char *path, const struct svg_chart *chart);

#endif
