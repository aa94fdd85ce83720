#!/usr/bin/env python3
"""A web server of files in a directory, with faults, and a little of S3; see http_test.c.

    web.py DIRECTORY      prints "port N" and a line for each request

A path is /FAULT/NAME. /s3/BUCKET/KEY checks signatures, of the key id "ID" with the
secret "SECRET" and, if it is given, the session token "TOKEN".
"""
import hashlib
import hmac
import http.server
import os
import re
import sys
import threading
import urllib.parse

LOCK = threading.Lock()
COUNTS = {}
SHA_EMPTY = hashlib.sha256(b"").hexdigest()


def count(path):
    """How often the path was asked for before."""
    with LOCK:
        COUNTS[path] = COUNTS.get(path, 0) + 1
        return COUNTS[path] - 1


def signature(secret, method, path, query, headers, names, scope, stamp):
    """The signature of a request, as Amazon's documents describe version 4."""
    canonical = "\n".join(
        [method, path, query]
        + ["%s:%s" % (name, " ".join(headers[name].split())) for name in names]
        + ["", ";".join(names), headers.get("x-amz-content-sha256", SHA_EMPTY)])
    text = "\n".join(["AWS4-HMAC-SHA256", stamp, scope,
                      hashlib.sha256(canonical.encode()).hexdigest()])
    key = ("AWS4" + secret).encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format, *args):
        print(self.command, self.path, self.headers.get("Range"), flush=True)

    def answer(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def refuse(self, code):
        self.answer(403, ("<Error><Code>%s</Code></Error>" % code).encode())

    def is_signed(self):
        head = self.headers.get("Authorization", "")
        found = re.fullmatch(r"AWS4-HMAC-SHA256 Credential=ID/(\d+/[^/]+/s3/aws4_request), "
                             r"SignedHeaders=([^,]+), Signature=([0-9a-f]{64})", head)
        if not found:
            return False
        scope, names, given = found.groups()
        names = names.split(";")
        path, _, query = self.path.partition("?")
        headers = {name.lower(): value for name, value in self.headers.items()}
        needed = {"host", "x-amz-date", "x-amz-content-sha256"}
        if "x-amz-security-token" in headers:
            needed.add("x-amz-security-token")
            if headers["x-amz-security-token"] != "TOKEN":
                return False
        query = "&".join(sorted(query.split("&")))
        return needed <= set(names) and names == sorted(names) and given == signature(
            "SECRET", self.command, path, query, headers, names, scope,
            headers["x-amz-date"])

    def list_keys(self, bucket, query):
        """Pages of two keys. The token says how many keys came before."""
        root = os.path.join(DIRECTORY, bucket)
        keys = sorted(os.path.relpath(os.path.join(top, name), root)
                      for top, _, names in os.walk(root) for name in names)
        asked = urllib.parse.parse_qs(query, keep_blank_values=True)
        keys = [key for key in keys if key.startswith(asked["prefix"][0])]
        begin = int(asked.get("continuation-token", ["at/0"])[0].split("/")[1])
        page = keys[begin:begin + 2]
        more = begin + 2 < len(keys)
        escaped = [key.replace("&", "&amp;").replace("<", "&lt;").replace("'", "&#39;")
                   for key in page]
        body = '<?xml version="1.0"?><ListBucketResult xmlns="x"><Name>%s</Name>' % bucket
        body += "<IsTruncated>%s</IsTruncated>" % ("true" if more else "false")
        if more:
            body += "<NextContinuationToken>at/%d</NextContinuationToken>" % (begin + 2)
        for key in escaped:
            body += "<Contents><Key>%s</Key><Size>1</Size></Contents>" % key
        self.answer(200, (body + "</ListBucketResult>").encode())

    def send_file(self, name, fault):
        try:
            with open(os.path.join(DIRECTORY, name), "rb") as file:
                content = file.read()
        except OSError:
            return self.answer(404)
        number = count(self.path)
        if fault == "grow" and number > 0:
            content += b"more"
        size = len(content)
        if fault == "untagged" and number > 0:
            fault = "nothing tells its version"
        tag = '"%d"' % (number if fault == "swap" else 7)
        found = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if fault == "whole" or not found:
            return self.answer(200, content, ETag=tag)
        first, last = int(found[1]), min(int(found[2]), size - 1)
        if first >= size:
            return self.answer(416, Content_Range="bytes */%d" % size)
        if fault == "short":  # fewer bytes than asked for
            last = min(last, first + 9999)
        shift = 1 if fault == "wrong" else 0
        self.send_response(206)
        self.send_header("Content-Range",
                         "bytes %d-%d/%d" % (first + shift, last + shift,
                                             2**62 if fault == "boast" else size))
        if fault == "dated":
            self.send_header("Last-Modified", "Wed, 21 Oct 2015 07:28:00 GMT")
        elif fault != "nothing tells its version":
            self.send_header("ETag", tag)
        body = content[first:last + 1]
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if fault == "cut" and number % 2 == 0:
            self.wfile.write(body[:len(body) // 2])
            self.close_connection = True
        elif fault == "stall" and first > 0:
            self.wfile.write(body[:10])
            self.wfile.flush()
            print("stalled", flush=True)
            self.rfile.read(1)  # until the client gives up
            self.close_connection = True
        else:
            self.wfile.write(body)

    def endless(self, status, **headers):
        """An answer whose body does not end."""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        while True:  # until the client goes away
            self.wfile.write(b"10000\r\n" + b"x" * 0x10000 + b"\r\n")

    def do_GET(self):
        path, _, query = self.path.partition("?")
        _, fault, name = path.split("/", 2)
        name = urllib.parse.unquote(name)
        if fault == "s3":
            bucket, _, key = name.partition("/")
            if not self.is_signed():
                self.refuse("SignatureDoesNotMatch")
            elif key == "":
                self.list_keys(bucket, query)
            else:
                self.send_file(name, fault)
        elif fault == "flaky" and count(self.path) % 3 < 2:
            self.answer(500, b"<html>")
        elif fault == "chatty":
            self.endless(404)
        elif fault == "chatty_redirect":
            self.endless(302, Location="/plain/" + name)
        elif fault == "colours":
            self.answer(403, b"<Code>\x1b[31mred\nevent=x\x07</Code>")
        elif fault == "down":
            self.answer(503)
        elif fault == "moved":
            self.answer(302, Location="/plain/" + name)
        elif fault == "loop":
            self.answer(302, Location=self.path)
        elif fault == "astray":
            self.answer(302, Location="file:///etc/hostname")
        else:
            self.send_file(name, fault)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        pass  # clients go away


DIRECTORY = sys.argv[1]
server = Server(("127.0.0.1", 0), Handler)
print("port %d." % server.server_port, flush=True)
server.serve_forever()
