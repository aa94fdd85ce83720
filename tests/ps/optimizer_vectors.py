#!/usr/bin/env python3
"""Computes every update rule in float64, from the formulas of docs/optimizers.md alone.

    tests/ps/optimizer_vectors.py >tests/ps/optimizer_vectors.inc

The suite compares dense variables and tables, on 1 and 3 ps, with and without schedule, clip
and decay, with what this prints (tests/ps/optimizer_vectors_test.c). It needs Python alone,
whose numbers are float64; the suite does not need it.
"""
import math

ROWS, COLUMNS, STEPS = 6, 2, 12
START = 0.5

RULES = [
    ("SGD", dict(learning_rate=0.1)),
    ("ADAGRAD", dict(learning_rate=0.1, epsilon=1e-10, initial_accumulator=0.1)),
    ("MOMENTUM", dict(learning_rate=0.1, momentum=0.9)),
    ("NESTEROV", dict(learning_rate=0.1, momentum=0.9)),
    ("ROWWISE_ADAGRAD", dict(learning_rate=0.1, epsilon=1e-10, initial_accumulator=0.1)),
    ("ADADELTA", dict(learning_rate=1.0, epsilon=1e-6, rho=0.9)),
    ("RMSPROP", dict(learning_rate=0.01, epsilon=1e-8, rho=0.99)),
    ("ADAM", dict(learning_rate=0.01, epsilon=1e-8, beta1=0.9, beta2=0.999)),
    ("ADAMW", dict(learning_rate=0.01, epsilon=1e-8, beta1=0.9, beta2=0.999)),
    ("FTRL", dict(learning_rate=0.1, initial_accumulator=0.1, beta=1.0, l1=0.01, l2=0.02)),
]
# COSINE: from learning_rate to end_rate in 8 steps, after 3 of warm-up.
CLIP = dict(clip_value=0.75, clip_norm=1.0)
DECAY = dict(weight_decay=0.01)
WARMUP, COSINE_STEPS, END_RATE = 3, 8, 0.001


def gradient(step, row, column):
    """Exact in a float; the test has the same line."""
    return ((step * 7 + (row * COLUMNS + column) * 5) % 17 - 8) / 8


def rate(o, step):
    base = o["learning_rate"]
    if not o.get("scheduled"):
        return base
    if step < WARMUP:
        return base * step / WARMUP
    done = min((step - WARMUP) / COSINE_STEPS, 1)
    return END_RATE + (base - END_RATE) * (1 + math.cos(math.pi * done)) / 2


def clipped(o, rows):
    """What is clipped together: a list of rows' gradients."""
    most = o.get("clip_value", math.inf)
    rows = [[max(-most, min(most, g)) for g in row] for row in rows]
    norm = math.sqrt(sum(g * g for row in rows for g in row))
    limit = o.get("clip_norm", math.inf)
    scale = limit / norm if norm > limit else 1
    return [[g * scale for g in row] for row in rows]


class Row:
    def __init__(self, o):
        start = o.get("initial_accumulator", 0.0)
        self.w = [START] * COLUMNS
        self.a = [start] * COLUMNS
        self.b = [0.0] * COLUMNS
        self.row = start
        self.t = 0

    def update(self, kind, o, r, t, gs):
        if kind != "ADAMW":
            gs = [g + o.get("weight_decay", 0) * w for g, w in zip(gs, self.w)]
        if kind == "ROWWISE_ADAGRAD":
            self.row += sum(g * g for g in gs) / COLUMNS
        for i, g in enumerate(gs):
            self.w[i] = self.value(kind, o, r, t, g, i)

    def value(self, kind, o, r, t, g, i):
        w, a, b = self.w[i], self.a, self.b
        if kind == "SGD":
            return w - r * g
        if kind == "ROWWISE_ADAGRAD":
            return w - r * g / (math.sqrt(self.row) + o["epsilon"])
        if kind == "ADAGRAD":
            a[i] += g * g
            return w - r * g / (math.sqrt(a[i]) + o["epsilon"])
        if kind in ("MOMENTUM", "NESTEROV"):
            a[i] = o["momentum"] * a[i] + g
            return w - r * (a[i] if kind == "MOMENTUM" else g + o["momentum"] * a[i])
        if kind == "RMSPROP":
            a[i] = o["rho"] * a[i] + (1 - o["rho"]) * g * g
            return w - r * g / (math.sqrt(a[i]) + o["epsilon"])
        if kind == "ADADELTA":
            a[i] = o["rho"] * a[i] + (1 - o["rho"]) * g * g
            d = g * math.sqrt(b[i] + o["epsilon"]) / math.sqrt(a[i] + o["epsilon"])
            b[i] = o["rho"] * b[i] + (1 - o["rho"]) * d * d
            return w - r * d
        if kind in ("ADAM", "ADAMW"):
            a[i] = o["beta1"] * a[i] + (1 - o["beta1"]) * g
            b[i] = o["beta2"] * b[i] + (1 - o["beta2"]) * g * g
            if kind == "ADAMW":
                w -= r * o.get("weight_decay", 0) * w
            m = a[i] / (1 - o["beta1"] ** t)
            v = b[i] / (1 - o["beta2"] ** t)
            return w - r * m / (math.sqrt(v) + o["epsilon"])
        assert kind == "FTRL"
        n = a[i] + g * g
        b[i] += g - (math.sqrt(n) - math.sqrt(a[i])) / r * w
        a[i] = n
        if abs(b[i]) <= o["l1"]:
            return 0.0
        signed = math.copysign(o["l1"], b[i])
        return (signed - b[i]) / ((o["beta"] + math.sqrt(n)) / r + 2 * o["l2"])


def dense(kind, o, n_ps):
    """All rows in each step; each ps has ROWS / n_ps of them, which are clipped together."""
    rows = [Row(o) for _ in range(ROWS)]
    part = ROWS // n_ps
    for step in range(STEPS):
        for ps in range(n_ps):
            mine = range(ps * part, (ps + 1) * part)
            gs = [[gradient(step, k, c) for c in range(COLUMNS)] for k in mine]
            for k, g in zip(mine, clipped(o, gs)):
                rows[k].update(kind, o, rate(o, step), step + 1, g)
    return rows


def table(kind, o):
    """Half of the rows in each step, the others in the next; each is clipped alone, and on which
    ps it is makes no difference."""
    rows = [Row(o) for _ in range(ROWS)]
    for step in range(STEPS):
        for k in range(ROWS):
            if k // 3 == step % 2:
                g = clipped(o, [[gradient(step, k, c) for c in range(COLUMNS)]])[0]
                rows[k].t += 1
                rows[k].update(kind, o, rate(o, step), rows[k].t, g)
    return rows


def numbers(rows):
    return ",\n      ".join(", ".join("%.12g" % w for w in row.w) for row in rows)


def main():
    print("/* Made by tests/ps/optimizer_vectors.py. */")
    for kind, bare in RULES:
        rich = dict(bare, **CLIP)
        if kind != "FTRL":
            rich.update(DECAY, scheduled=True)
        for name, o in (("bare", bare), ("rich", rich)):
            fields = ", ".join(".%s = %rF" % (k, float(v)) for k, v in o.items()
                               if k != "scheduled")
            if o.get("scheduled"):
                fields += ", .schedule = {.kind = COXI_SCHEDULE_COSINE, .end_rate = %rF, " \
                    ".steps = %d, .warmup_steps = %d}" % (END_RATE, COSINE_STEPS, WARMUP)
            print('{"%s_%s",\n {.kind = COXI_OPTIMIZER_%s, %s},' % (kind, name, kind, fields))
            print(" {{%s},\n  {%s}},\n {%s}}," % (numbers(dense(kind, o, 1)),
                                                 numbers(dense(kind, o, 3)),
                                                 numbers(table(kind, o))))


main()
