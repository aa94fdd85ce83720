#!/usr/bin/env python3
"""See interoperable.sh.

    interoperable.py COXSWAIN DIRECTORY"""
import gzip
import importlib.util
import json
import os
import struct
import subprocess
import sys

COXSWAIN, DIRECTORY = sys.argv[1:]
EXAMPLE = ["--format", "tfrecord", "--column", "label:label", "--column", "ids:key:integers",
           "--column", "price:dense", "--column", "text:bytes"]


def path(name):
    return os.path.join(DIRECTORY, name)


def data(*words, **environment):
    """What `coxswain data` prints."""
    done = subprocess.run([COXSWAIN, "data", *words], stdout=subprocess.PIPE, check=True,
                          timeout=120, env={**os.environ, **environment})
    return done.stdout.decode()


def records(*words):
    """All records of files, as a step gets them."""
    found = data("head", "--json", "--full", "--records", "1000000", *words)
    return [json.loads(line) for line in found.splitlines()]


def same(what, found, expected):
    if found != expected:
        sys.exit(f"{what}: {found!r:.300} is not {expected!r:.300}")
    print(f"ok: {what}")


def lines_of(name, *options):
    """Generates a click log; returns its path and its lines."""
    data("generate", "--records", "1000", *options, "clicks", path(name))
    with open(path(name), "rb") as file:
        return path(name), file.read().splitlines()


def examples():
    """Examples as other programs write them, and as a step must get them."""
    given = [(i % 2, [i, i * 2 ** 40 - 7], i / 4, f"text {i} \u00e9") for i in range(500)]
    expected = [{"label": label, "keys": [str(key % 2 ** 64) for key in ids], "dense": [price],
                 "bytes": text} for label, ids, price, text in given]
    return given, expected


def seen(found, expected):
    """The members of the records that are expected to have a value."""
    return [{name: record.get(name) for name in wanted}
            for record, wanted in zip(found, expected, strict=True)]


# ---- the tfrecord package

def masked_crc(crc32c, part):
    crc = crc32c.crc32c(part)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) % 2 ** 32


def check_checksums(name):
    """As the format's page has it: the package itself does not verify them."""
    import crc32c
    with open(name, "rb") as file:
        rest = file.read()
    while rest:
        n = struct.unpack("<Q", rest[:8])[0]
        crcs = struct.unpack("<I", rest[8:12]) + struct.unpack("<I", rest[12 + n:16 + n])
        same_quietly = (masked_crc(crc32c, rest[:8]), masked_crc(crc32c, rest[12:12 + n]))
        if crcs != same_quietly:
            sys.exit(f"{name}: a checksum is wrong")
        rest = rest[16 + n:]


def with_tfrecord():
    import tfrecord
    given, expected = examples()
    writer = tfrecord.TFRecordWriter(path("package.tfrecord"))
    for label, ids, price, text in given:
        writer.write({"label": (float(label), "float"), "ids": (ids, "int"),
                      "price": (price, "float"), "text": (text.encode(), "byte")})
    writer.close()
    same("tf.Example of the tfrecord package",
         seen(records(*EXAMPLE, path("package.tfrecord")), expected), expected)
    source, lines = lines_of("clicks.libsvm")
    data("convert", source, path("clicks.tfrecord"))
    found = [bytes(record) for record in
             tfrecord.reader.tfrecord_iterator(path("clicks.tfrecord"))]
    same("our TFRecord in the tfrecord package", found, lines)
    check_checksums(path("clicks.tfrecord"))
    print("ok: checksums of our TFRecord, by the crc32c package")


# ---- TensorFlow

def with_tensorflow():
    import tensorflow as tf
    given, expected = examples()

    def feature(kind, values):
        of = {"float": ("float_list", tf.train.FloatList), "int": ("int64_list", tf.train.Int64List),
              "bytes": ("bytes_list", tf.train.BytesList)}[kind]
        return tf.train.Feature(**{of[0]: of[1](value=values)})

    for name, options in [("tf.tfrecord", ""), ("tf.tfrecord.gz", "GZIP")]:
        with tf.io.TFRecordWriter(path(name), options) as writer:
            for label, ids, price, text in given:
                writer.write(tf.train.Example(features=tf.train.Features(feature={
                    "label": feature("float", [label]), "ids": feature("int", ids),
                    "price": feature("float", [price]),
                    "text": feature("bytes", [text.encode()])})).SerializeToString())
        same(f"tf.Example of TensorFlow {options}",
             seen(records(*EXAMPLE, path(name)), expected), expected)
    source, lines = lines_of("again.libsvm")
    for name, kind in [("again.tfrecord", ""), ("again.tfrecord.gz", "GZIP")]:
        data("convert", source, path(name))
        found = [record.numpy() for record in tf.data.TFRecordDataset(path(name), kind)]
        same(f"our TFRecord in TensorFlow {kind}", found, lines)


# ---- pandas

def with_pandas():
    import pandas
    texts = ["plain", 'quote " in it', "comma, in it", "", "\u00e9\u4e2d", " spaces "]
    frame = pandas.DataFrame({"label": [i % 2 for i in range(600)],
                              "price": [i / 8 for i in range(600)],
                              "id": [i * 10 ** 12 for i in range(600)],
                              "text": [texts[i % len(texts)] for i in range(600)]})
    expected = [{"label": row.label, "keys": [str(row.id)], "dense": [row.price],
                 "bytes": row.text} for row in frame.itertuples()]
    columns = ["--header", "--column", "label:label", "--column", "price:dense", "--column",
               "id:key:integers", "--column", "text:bytes"]
    for name in ["pandas.csv", "pandas.csv.gz"]:
        frame.to_csv(path(name), index=False)
        same(f"{name} of pandas", seen(records(*columns, path(name)), expected), expected)
    data("generate", "--records", "1000", "ratings", path("ratings.csv"))
    found = pandas.read_csv(path("ratings.csv"))
    ours = records("--header", "--column", "user:key:integers", "--column",
                   "item:key:integers", "--column", "rating:label", path("ratings.csv"))
    same("our ratings in pandas",
         [([str(user), str(item)], round(rating, 4))
          for user, item, rating in found.itertuples(index=False)],
         [(record["keys"], round(record["label"], 4)) for record in ours])


# ---- moto

def with_moto():
    import boto3
    from moto.server import ThreadedMotoServer
    server = ThreadedMotoServer("127.0.0.1", 0)
    server.start()
    host, port = server.get_host_and_port()
    try:
        url = f"http://{host}:{port}"
        s3 = boto3.client("s3", endpoint_url=url, region_name="eu-west-1",
                          aws_access_key_id="ID", aws_secret_access_key="SECRET")
        s3.create_bucket(Bucket="clicks", CreateBucketConfiguration={
            "LocationConstraint": "eu-west-1"})
        name, lines = lines_of("part.libsvm")
        with open(name, "rb") as file:
            content = file.read()
        for key, body in [("day 1/part-0.libsvm", content), ("day 1/part-1.libsvm", content),
                          ("day 1/part-2.libsvm.gz", gzip.compress(content)),
                          ("day 2/part-0.libsvm", b"1 2:3\n")]:
            s3.put_object(Bucket="clicks", Key=key, Body=body)
        settings = {"AWS_ENDPOINT_URL": url, "AWS_REGION": "eu-west-1",
                    "AWS_ACCESS_KEY_ID": "ID", "AWS_SECRET_ACCESS_KEY": "SECRET"}
        counted = json.loads(data("count", "--json", "--format", "libsvm",
                                  "s3://clicks/day 1/part-0.libsvm",
                                  "s3://clicks/day 1/part-2.libsvm.gz", **settings))
        same("records of two objects in moto", counted["total"]["records"], 2 * len(lines))
        # the demo's data set lists the objects
        done = subprocess.run(
            [os.path.join(os.path.dirname(COXSWAIN), "ctr"), "--train",
             "s3://clicks/day 1/part-*", "--valid", name, "--format", "libsvm",
             "--epochs", "1", "--out", path("demo")],
            stdout=subprocess.PIPE, check=True, timeout=120, env={**os.environ, **settings})
        trained = json.loads(done.stdout.decode().splitlines()[-1])
        same("rows that the demo trained on, from moto", trained["examples"], 3 * len(lines))
    finally:
        server.stop()


def main():
    with_pandas()
    with_tfrecord()
    if importlib.util.find_spec("tensorflow"):
        with_tensorflow()
    with_moto()


main()
