"""Reads and writes RecordIO and TFRecord as docs/data.md describes them.

recordio.py read FILE              prints each record as hexadecimal digits
recordio.py write FILE gzip|none   writes the records that `records` lists
recordio.py tfrecord FILE          prints each record of a TFRecord file, checked
"""
import gzip
import struct
import sys
import zlib

records = [b"one", b"", b"three\nlines\n", bytes(range(256)) * 20]


def chunks(data):
    at = 0
    while at < len(data):
        magic, crc, codec, size, count = struct.unpack_from("<5I", data, at)
        payload = data[at + 20 : at + 20 + size]
        assert magic == 0x01020304 and len(payload) == size
        assert zlib.crc32(payload) == crc
        yield codec, count, payload
        at += 20 + size


def read(path):
    with open(path, "rb") as file:
        data = file.read()
    for codec, count, payload in chunks(data):
        if codec == 2:
            payload = gzip.decompress(payload)
        else:
            assert codec == 0
        at = 0
        for _ in range(count):
            (size,) = struct.unpack_from("<I", payload, at)
            print(payload[at + 4 : at + 4 + size].hex())
            at += 4 + size
        assert at == len(payload)


def write(path, codec):
    with open(path, "wb") as file:
        for some in (records[:2], records[2:]):
            payload = b"".join(struct.pack("<I", len(r)) + r for r in some)
            if codec == "gzip":
                payload = gzip.compress(payload)
            file.write(
                struct.pack(
                    "<5I",
                    0x01020304,
                    zlib.crc32(payload),
                    2 if codec == "gzip" else 0,
                    len(payload),
                    len(some),
                )
            )
            file.write(payload)


def masked_crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def tfrecord(path):
    with open(path, "rb") as file:
        data = file.read()
    at = 0
    while at < len(data):
        size, crc = struct.unpack_from("<QI", data, at)
        assert crc == masked_crc32c(data[at : at + 8])
        record = data[at + 12 : at + 12 + size]
        (crc,) = struct.unpack_from("<I", data, at + 12 + size)
        assert crc == masked_crc32c(record)
        print(record.hex())
        at += 16 + size


if sys.argv[1] == "read":
    read(sys.argv[2])
elif sys.argv[1] == "write":
    write(sys.argv[2], sys.argv[3])
else:
    tfrecord(sys.argv[2])
