#!/usr/bin/env python3
"""A sink of OTLP/HTTP that stores the body of each request as it came.

    sink.py DIRECTORY [PORT]

prints its base address. The files are named NN.<traces|logs|metrics>.<pb|json>[.gz] in order of
arrival, by the path, the content type and the content encoding.
"""
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SIGNALS = {"/v1/traces": "traces", "/v1/logs": "logs", "/v1/metrics": "metrics"}
SUFFIX = {"application/x-protobuf": "pb", "application/json": "json"}


def serve(directory, port=0, metrics=0):
    """Starts the sink in a thread; of the bodies with metrics it keeps only the first `metrics`."""
    os.makedirs(directory, exist_ok=True)
    lock = threading.Lock()
    left = [metrics]
    count = [0]

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            pass

        def body(self):
            if (self.headers.get("transfer-encoding") or "").lower() != "chunked":
                return self.rfile.read(int(self.headers.get("content-length") or 0))
            parts = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            while self.rfile.readline().strip():
                pass
            return b"".join(parts)

        def do_POST(self):
            body = self.body()
            signal = SIGNALS.get(self.path.split("?")[0])
            kind = (self.headers.get("content-type") or "").split(";")[0].strip()
            suffix = SUFFIX.get(kind)
            encoding = self.headers.get("content-encoding") or ""
            if not signal or not suffix or encoding not in ("", "gzip", "identity"):
                self.send_response(404 if not signal else 415)
                self.send_header("content-length", "0")
                self.end_headers()
                return
            with lock:
                keep = signal != "metrics" or left[0] > 0
                if signal == "metrics":
                    left[0] -= 1
                if keep:
                    count[0] += 1
                    name = f"{count[0]:02}.{signal}.{suffix}" + (".gz" if encoding == "gzip" else "")
                    with open(os.path.join(directory, name), "wb") as f:
                        f.write(body)
            answer = b"{}" if suffix == "json" else b""
            self.send_response(200)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


if __name__ == "__main__":
    it = serve(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 0, metrics=1)
    print(f"http://127.0.0.1:{it.server_address[1]}", flush=True)
    threading.Event().wait()
