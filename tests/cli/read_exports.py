#!/usr/bin/env python3
"""Reads .npz and .safetensors files with numpy (and the safetensors library) and prints for
each array a line: name, dtype, shape, sum of its elements. Exits 77 where a library is
missing."""
import sys

try:
    import numpy
except ImportError:
    sys.exit(77)

for path in sys.argv[1:]:
    if path.endswith(".npz"):
        arrays = dict(numpy.load(path))
    else:
        try:
            from safetensors.numpy import load_file
        except ImportError:
            sys.exit(77)
        arrays = load_file(path)
    for name in sorted(arrays):
        array = arrays[name]
        shape = ",".join(str(n) for n in array.shape)
        print(name, array.dtype.name, shape, float(array.astype("float64").sum()))
