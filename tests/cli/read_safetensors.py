#!/usr/bin/env python3
"""Reads safetensors files with nothing but the format's own description, and prints for
each tensor a line: name, dtype, shape, and the sum of its elements (numbers only)."""
import json
import struct
import sys

TYPES = {"F32": "f", "F64": "d", "I32": "i", "I64": "q", "U8": "B", "U64": "Q"}

for path in sys.argv[1:]:
    with open(path, "rb") as file:
        data = file.read()
    (length,) = struct.unpack_from("<Q", data)
    for name, entry in json.loads(data[8 : 8 + length]).items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        kind = TYPES[entry["dtype"]]
        count = (end - begin) // struct.calcsize(kind)
        numbers = struct.unpack_from(f"<{count}{kind}", data, 8 + length + begin)
        print(name, entry["dtype"], entry["shape"], repr(float(sum(numbers))))
