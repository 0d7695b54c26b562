"""A proxy on loopback in front of an S3 server, which answers as one that is in trouble."""
import collections
import http.client
import http.server
import random
import select
import socket
import struct
import threading
import time

ERROR = '<?xml version="1.0" encoding="UTF-8"?><Error><Code>{}</Code><Message>try again</Message></Error>'
CODES = {500: "InternalError", 503: "SlowDown", 429: "TooManyRequests"}

FAULTS = [
    "500",
    "503",
    "429",
    "done, then 500",  # S3 has done it, and the answer says that it failed
    "late",  # S3 does it at once, and the answer comes late
    "late at S3",  # S3 does it late, maybe after its sender was killed
    "no answer",  # nothing is done, and nothing is answered
    "closed",  # the connection ends before S3 has the request
    "reset",
    "done, then closed",  # S3 has done it, and the connection ends without an answer
    "done, then reset",
    "cut",  # the body of the answer ends in the middle
]


class Proxy(http.server.ThreadingHTTPServer):
    """`share` of the requests get a fault. An answer is late by at most `late` seconds, and one
    that never comes is awaited for at most `patience` seconds."""

    daemon_threads = True

    def __init__(self, upstream, seed, share, late, patience):
        super().__init__(("127.0.0.1", 0), Handler)
        self.upstream, self.share, self.late, self.patience = upstream, share, late, patience
        self.random = random.Random(seed)
        self.lock = threading.Lock()
        # S3 compares and replaces in one step; the server here does not.
        self.conditional = threading.Lock()
        self.requests, self.faults, self.in_flight = 0, collections.Counter(), 0
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def next_fault(self):
        """The fault of one more request, and how late it is."""
        with self.lock:
            self.requests += 1
            self.in_flight += 1
            fault = self.random.choice(FAULTS) if self.random.random() < self.share else None
            self.faults[fault] += 1
            return fault, self.random.random() * self.late

    def wait_until_idle(self):
        while self.in_flight:
            time.sleep(0.02)

    def handle_error(self, request, client_address):
        """A client that was killed is no error here."""


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *args):
        pass

    def answer(self):
        fault, late = self.server.next_fault()
        try:
            self.answer_with(fault, late)
        except OSError:
            self.close_connection = True
        finally:
            with self.server.lock:
                self.server.in_flight -= 1

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = answer

    def answer_with(self, fault, late):
        if fault in ("closed", "reset"):
            return self.end(fault)
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        if len(body) < length:
            # Its sender was killed, so S3 does not do it.
            return self.end("closed")
        if fault in ("500", "503", "429"):
            return self.send(int(fault))
        if fault == "no answer":
            # Until the client ends the connection.
            select.select([self.connection], [], [], self.server.patience)
            return self.end("closed")
        if fault == "late at S3":
            time.sleep(late)
        answer = self.ask(body)
        if fault == "late":
            time.sleep(late)
        if fault == "done, then 500":
            return self.send(500)
        if fault in ("done, then closed", "done, then reset"):
            return self.end(fault)
        self.send(*answer, is_cut=fault == "cut")

    def ask(self, body):
        """The status, headers and body of the answer of S3."""
        upstream = http.client.HTTPConnection(self.server.upstream)
        is_conditional = "If-Match" in self.headers or "If-None-Match" in self.headers
        with self.server.conditional if is_conditional else threading.Lock():
            upstream.request(self.command, self.path, body, dict(self.headers))
            answer = upstream.getresponse()
            content = answer.read()
        upstream.close()
        return answer.status, answer.getheaders(), content

    def send(self, status, headers=(), content=None, is_cut=False):
        content = ERROR.format(CODES[status]).encode() if content is None else content
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in ("content-length", "connection", "transfer-encoding"):
                self.send_header(name, value)
        has_length = status != 204
        length = len(content)
        if self.command == "HEAD":
            length = dict(headers).get("Content-Length", 0)
        if has_length:
            self.send_header("Content-Length", length)
        self.end_headers()
        if self.command == "HEAD" or not has_length:
            content = b""
        if is_cut:
            self.wfile.write(content[: len(content) // 2])
            return self.end("closed")
        self.wfile.write(content)

    def end(self, how):
        self.close_connection = True
        if how.endswith("reset"):
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
