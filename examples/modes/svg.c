/* See svg.h. */
#include "svg.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>

/* The plot's place in the picture; the legend is to its right. */
enum { WIDTH = 790, HEIGHT = 400, LEFT = 70, RIGHT = 560, TOP = 44, BOTTOM = 348 };

static const char style[] =
    "<style>text{font:13px sans-serif;fill:#222}.t{font-weight:bold}.b{fill:#fff}"
    ".g{stroke:#ddd}polyline,.l{fill:none;stroke-width:2;stroke-linejoin:round}"
    ".c0{stroke:#111}.c1{stroke:#0072b2}.c2{stroke:#00875a}.c3{stroke:#d55e00}"
    ".c4{stroke:#a3329b}.c5{stroke:#a67c00}.d{stroke-dasharray:7 4}\n"
    "@media(prefers-color-scheme:dark){text{fill:#ddd}.b{fill:#16191d}.g{stroke:#"
    "3a3f45}"
    ".c0{stroke:#f4f4f4}.c1{stroke:#56b4e9}.c2{stroke:#2fc48d}.c3{stroke:#ff8c42}"
    ".c4{stroke:#e58fdf}.c5{stroke:#e6c229}}</style>\n";

/* An axis: numbers from `least` to `most` are at pixels from `from` to `to`. */
struct axis {
    double least;
    double most;
    double step; /* from tick to tick */
    double from;
    double to;
};

static double pixel(const struct axis *axis, double number)
{
    return axis->from + (number - axis->least) / (axis->most - axis->least) *
                            (axis->to - axis->from);
}

/* About `ticks` ticks, at multiples of 1, 2 or 5 times a power of ten. */
static void set_ticks(struct axis *axis, int ticks)
{
    double rough = (axis->most - axis->least) / ticks;
    double power = pow(10, floor(log10(rough)));
    double digit = rough / power;
    axis->step = power * (digit > 5 ? 10 : digit > 2 ? 5 : digit > 1 ? 2 : 1);
}

/* The axes that show all numbers, but none above y_most. */
static void find_axes(const struct svg_chart *chart, struct axis *x, struct axis *y)
{
    *x = (struct axis){.most = 0, .from = LEFT, .to = RIGHT};
    *y = (struct axis){
        .least = chart->y_most, .most = chart->y_most, .from = BOTTOM, .to = TOP};
    for (size_t l = 0; l < chart->n_lines; l++) {
        const struct svg_line *line = &chart->lines[l];
        for (size_t i = 0; i < line->n; i++) {
            x->most = isfinite(line->x[i]) ? fmax(x->most, line->x[i]) : x->most;
            y->least = isfinite(line->y[i]) ? fmin(y->least, line->y[i]) : y->least;
        }
    }
    x->most = x->most > 0 ? x->most : 1;
    if (!isfinite(y->least) || !(y->most - y->least > 1e-9 * fabs(y->most))) {
        *y = (struct axis){.least = 0, .most = 1, .from = BOTTOM, .to = TOP};
    }
    set_ticks(x, 6);
    set_ticks(y, 6);
    y->least = floor(y->least / y->step) * y->step;
}

static void put_text(FILE *file, const char *text)
{
    for (; *text != '\0'; text++) {
        switch (*text) {
        case '<':
            (void)fputs("&lt;", file);
            break;
        case '&':
            (void)fputs("&amp;", file);
            break;
        default: /* names of files may have control characters, XML may not */
            (void)fputc((unsigned char)*text < ' ' ? '?' : *text, file);
        }
    }
}

static void put_label(FILE *file, const char *attributes, const char *text)
{
    (void)fprintf(file, "<text %s>", attributes);
    put_text(file, text);
    (void)fputs("</text>\n", file);
}

static void put_axes(FILE *file, const struct svg_chart *chart, const struct axis *x,
                     const struct axis *y)
{
    char place[96];
    for (double k = 0; k * x->step <= x->most * (1 + 1e-9); k++) {
        double at = pixel(x, k * x->step);
        (void)fprintf(file,
                      "<path class=\"g\" d=\"M%.0f %dV%d\"/><text x=\"%.0f\" y=\"%d\" "
                      "text-anchor=\"middle\">%g</text>\n",
                      at, BOTTOM, TOP, at, BOTTOM + 18, k * x->step);
    }
    int digits = (int)fmax(0, ceil(-log10(y->step) - 1e-9));
    double first = round(y->least / y->step);
    for (double k = first; k * y->step <= y->most * (1 + 1e-9); k++) {
        double at = pixel(y, k * y->step);
        (void)fprintf(file,
                      "<path class=\"g\" d=\"M%d %.0fH%d\"/><text x=\"%d\" y=\"%.0f\" "
                      "text-anchor=\"end\">%.*f</text>\n",
                      LEFT, at, RIGHT, LEFT - 8, at + 4, digits, k * y->step);
    }
    (void)snprintf(place, sizeof(place), "x=\"%d\" y=\"%d\" text-anchor=\"middle\"",
                   (LEFT + RIGHT) / 2, BOTTOM + 40);
    put_label(file, place, chart->x_label);
    (void)snprintf(place, sizeof(place),
                   "transform=\"translate(16 %d)rotate(-90)\" text-anchor=\"middle\"",
                   (TOP + BOTTOM) / 2);
    put_label(file, place, chart->y_label);
}

static void put_lines(FILE *file, const struct svg_chart *chart, const struct axis *x,
                      const struct axis *y)
{
    (void)fprintf(file,
                  "<clipPath id=\"p\"><path d=\"M%d %dH%dV%dH%dz\"/></clipPath>"
                  "<g clip-path=\"url(#p)\">\n",
                  LEFT, TOP, RIGHT, BOTTOM + 2, LEFT);
    for (size_t l = 0; l < chart->n_lines; l++) {
        const struct svg_line *line = &chart->lines[l];
        (void)fprintf(file, "<polyline class=\"c%d%s\" points=\"", line->colour,
                      line->dashed ? " d" : "");
        for (size_t i = 0; i < line->n; i++) {
            if (isfinite(line->x[i]) && isfinite(line->y[i])) {
                /* far outside is as good as far off, and any reader can take it */
                (void)fprintf(file, "%.1f,%.1f ", pixel(x, line->x[i]),
                              fmax(pixel(y, line->y[i]), -HEIGHT));
            }
        }
        (void)fputs("\"/>\n", file);
    }
    (void)fputs("</g>\n", file);
}

static void put_legend(FILE *file, const struct svg_chart *chart)
{
    char place[64];
    for (size_t l = 0; l < chart->n_lines; l++) {
        const struct svg_line *line = &chart->lines[l];
        int at = TOP + 10 + 24 * (int)l;
        (void)fprintf(file, "<path class=\"l c%d%s\" d=\"M%d %dh28\"/>", line->colour,
                      line->dashed ? " d" : "", RIGHT + 18, at);
        (void)snprintf(place, sizeof(place), "x=\"%d\" y=\"%d\"", RIGHT + 54, at + 4);
        put_label(file, place, line->label);
    }
}

int svg_write(const char *path, const struct svg_chart *chart)
{
    struct axis x;
    struct axis y;
    char place[64];
    FILE *file = fopen(path, "we");
    if (file == NULL) {
        return -1;
    }
    find_axes(chart, &x, &y);
    (void)fprintf(
        file,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
        "viewBox=\"0 0 %d %d\" role=\"img\">\n<title>",
        WIDTH, HEIGHT, WIDTH, HEIGHT);
    put_text(file, chart->title);
    (void)fprintf(file, "</title>\n%s<path class=\"b\" d=\"M0 0H%dV%dH0z\"/>\n", style,
                  WIDTH, HEIGHT);
    (void)snprintf(place, sizeof(place), "class=\"t\" x=\"%d\" y=\"26\"", LEFT);
    put_label(file, place, chart->title);
    put_axes(file, chart, &x, &y);
    put_lines(file, chart, &x, &y);
    put_legend(file, chart);
    (void)fputs("</svg>\n", file);
    int error = ferror(file) != 0 ? EIO : 0;
    if (fclose(file) != 0) {
        return -1;
    }
    errno = error != 0 ? error : errno;
    return error != 0 ? -1 : 0;
}
