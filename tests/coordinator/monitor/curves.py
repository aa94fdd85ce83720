"""Compares what TensorBoard's own reader finds with metrics.jsonl.

  curves.py DIR     DIR/run/metrics.jsonl and DIR/curves, from client_curves
"""
import json
import math
import struct
import sys

from tensorboard.backend.event_processing import event_accumulator


def is_void(scalar, resumed):
    if scalar["source"] == "eval":
        return scalar["step"] > resumed["closure"]
    return scalar["seq"] > resumed["seq"]


def points(path):
    """The points that count, by the rules of docs/watching.md: {(run, name): {step: value}}."""
    scalars = []
    with open(path, encoding="utf-8") as file:
        for record in map(json.loads, file):
            if record["kind"] == "scalar":
                scalars.append(record)
            elif record["kind"] == "run" and "resumed" in record:
                assert record["resumed"]["seq"] > 0
                scalars = [s for s in scalars if not is_void(s, record["resumed"])]
    found = {}
    for s in scalars:
        run = "eval" if s["source"] == "eval" else "train"
        found.setdefault((run, s["name"]), {})[s["step"]] = s["value"]
    return found


def rounded(value):
    return struct.unpack("f", struct.pack("f", value))[0]


def main():
    expected = points(sys.argv[1] + "/run/metrics.jsonl")
    assert len(expected[("train", "loss")]) == 200, len(expected[("train", "loss")])
    assert sorted(expected[("train", "epoch")]) == [1, 2]
    assert len(expected[("eval", "auc")]) == 2, expected[("eval", "auc")]
    for run in ("train", "eval"):
        reader = event_accumulator.EventAccumulator(
            sys.argv[1] + "/curves/" + run, size_guidance={event_accumulator.SCALARS: 0})
        reader.Reload()
        tags = {name for of, name in expected if of == run}
        found = {tag for tag in reader.Tags()["scalars"] if reader.Scalars(tag)}
        assert found == tags, (found, tags)
        for name in tags:
            read = [(e.step, e.value) for e in reader.Scalars(name)]
            steps = [step for step, _ in read]
            assert steps == sorted(set(steps)), (name, "has a fold", steps)
            wanted = sorted(expected[(run, name)].items())
            assert [s for s, _ in wanted] == steps, (name, wanted, read)
            for (_, value), (_, got) in zip(wanted, read):
                assert math.isclose(rounded(value), got, rel_tol=0, abs_tol=0), (name, value, got)
        print(f"{run}: {len(tags)} curves, as in metrics.jsonl")


if __name__ == "__main__":
    main()
