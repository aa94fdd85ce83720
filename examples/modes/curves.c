/* See curves.h. */
#include "curves.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "svg.h"

/* The curves' numbers, one array for all of them. */
struct numbers {
    double *x;
    double *y;
    struct svg_line lines[KINDS];
    size_t n_lines;
};

static bool collect(const struct curve curves[KINDS], bool seconds, struct numbers *ret)
{
    size_t n = 0;
    for (int k = 0; k < KINDS; k++) {
        n += curves[k].n;
    }
    *ret = (struct numbers){.x = calloc(n + 1, sizeof(double)),
                            .y = calloc(n + 1, sizeof(double))};
    if (ret->x == NULL || ret->y == NULL) {
        return false;
    }
    double *x = ret->x;
    double *y = ret->y;
    for (int k = 0; k < KINDS; k++) {
        const struct curve *curve = &curves[k];
        for (size_t i = 0; i < curve->n; i++) {
            x[i] =
                seconds ? curve->points[i].seconds : curve->points[i].examples / 1000;
            y[i] = curve->points[i].loss;
        }
        if (curve->kind != NULL) {
            ret->lines[ret->n_lines++] = (struct svg_line){curve->kind->label,
                                                           curve->kind->colour,
                                                           curve->kind->dashed,
                                                           x,
                                                           y,
                                                           curve->n};
        }
        x += curve->n;
        y += curve->n;
    }
    return true;
}

/* The highest loss of the first points: above are only modes that learn badly. */
static double highest(const struct numbers *numbers)
{
    double lowest = INFINITY;
    double most = 0;
    for (size_t l = 0; l < numbers->n_lines; l++) {
        const struct svg_line *line = &numbers->lines[l];
        lowest = line->n > 0 ? fmin(lowest, line->y[0]) : lowest;
    }
    for (size_t l = 0; l < numbers->n_lines; l++) {
        const struct svg_line *line = &numbers->lines[l];
        if (line->n > 0 && line->y[0] < 1.2 * lowest) {
            most = fmax(most, line->y[0]);
        }
    }
    return most;
}

static int draw(const struct curve curves[KINDS], const char *dir, const char *name,
                bool seconds)
{
    char path[4096];
    char title[512];
    struct numbers numbers;
    int code = 1;
    (void)snprintf(path, sizeof(path), "%s/%s.svg", dir,
                   seconds ? "seconds" : "examples");
    (void)snprintf(title, sizeof(title), "Loss over %s: %s",
                   seconds ? "time" : "examples", name);
    if (!collect(curves, seconds, &numbers)) {
        (void)fputs("modes: out of memory\n", stderr);
    } else {
        const struct svg_chart chart = {
            .title = title,
            .x_label = seconds ? "seconds of training" : "examples (thousands)",
            .y_label = "log loss of the test rows (nats)",
            .y_most = highest(&numbers),
            .lines = numbers.lines,
            .n_lines = numbers.n_lines,
        };
        code = svg_write(path, &chart) != 0;
        if (code != 0) {
            (void)fprintf(stderr, "modes: %s: %s\n", path, strerror(errno));
        }
    }
    free(numbers.x);
    free(numbers.y);
    return code;
}

int curves_draw(const struct curve curves[KINDS], const char *dir, const char *name)
{
    int code = draw(curves, dir, name, false);
    return code != 0 ? code : draw(curves, dir, name, true);
}

void curves_print(const struct curve curves[KINDS])
{
    (void)printf("\n%-22s %9s %11s %8s %8s %10s %9s\n", "mode", "seconds", "examples/s",
                 "loss", "auc", "staleness", "left out");
    for (int k = 0; k < KINDS; k++) {
        const struct curve *curve = &curves[k];
        if (curve->kind == NULL || curve->n == 0) {
            continue;
        }
        const struct point *last = &curve->points[curve->n - 1];
        char staleness[32] = "-";
        if (isfinite(curve->staleness)) {
            (void)snprintf(staleness, sizeof(staleness), "%.1f", curve->staleness);
        }
        (void)printf("%-22s %9.2f %11.0f %8.4f %8.4f %10s %9llu\n", curve->kind->label,
                     last->seconds, last->examples / last->seconds, last->loss,
                     last->auc, staleness, (unsigned long long)curve->left_out);
    }
}
