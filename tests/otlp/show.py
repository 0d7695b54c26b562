#!/usr/bin/env python3
"""Prints what the bodies in a directory hold; needs opentelemetry-proto.

    show.py DIRECTORY [WIDTH]
"""
import glob
import gzip
import os
import sys

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

WIDTH = int(sys.argv[2]) if len(sys.argv) > 2 else 200


def value(v):
    kind = v.WhichOneof("value")
    if kind == "array_value":
        return [value(x) for x in v.array_value.values]
    if kind == "kvlist_value":
        return {x.key: value(x.value) for x in v.kvlist_value.values}
    return getattr(v, kind) if kind else None


def attributes(these, indent):
    for a in these:
        kind = a.value.WhichOneof("value") or "none"
        text = repr(value(a.value))
        print(f"{indent}{a.key} ({kind.removesuffix('_value')}) = {text[:WIDTH]}{'…' if len(text) > WIDTH else ''}")


for path in sorted(glob.glob(os.path.join(sys.argv[1], "[0-9]*"))):
    data = open(path, "rb").read()
    if path.endswith(".gz"):
        data = gzip.decompress(data)
    print(f"\n#### {os.path.basename(path)} ({len(data)} bytes)")
    if ".traces." in path:
        for r in ExportTraceServiceRequest.FromString(data).resource_spans:
            attributes(r.resource.attributes, "  resource ")
            for s in r.scope_spans:
                print(f"  scope {s.scope.name!r} {s.scope.version!r} schema {s.schema_url!r}")
                for p in s.spans:
                    print(f"    span {p.name!r} kind {p.kind} trace {p.trace_id.hex()[:6]} id {p.span_id.hex()[:6]} "
                          f"parent {p.parent_span_id.hex()[:6]} status {p.status.code} {p.status.message[:80]!r}")
                    attributes(p.attributes, "      ")
                    for e in p.events:
                        print(f"      event {e.name!r}")
                        attributes(e.attributes, "        ")
                    for k in p.links:
                        print(f"      link {k.trace_id.hex()[:6]} {k.span_id.hex()[:6]}")
                        attributes(k.attributes, "        ")
    elif ".logs." in path:
        for r in ExportLogsServiceRequest.FromString(data).resource_logs:
            for s in r.scope_logs:
                print(f"  scope {s.scope.name!r} {s.scope.version!r} schema {s.schema_url!r}")
                for g in s.log_records:
                    print(f"    log event_name {g.event_name!r} severity {g.severity_number} {g.severity_text!r} trace "
                          f"{g.trace_id.hex()[:6]} span {g.span_id.hex()[:6]} time {bool(g.time_unix_nano)} "
                          f"observed {bool(g.observed_time_unix_nano)}")
                    print(f"      body {repr(value(g.body))[:WIDTH]}")
                    attributes(g.attributes, "      ")
    else:
        for r in ExportMetricsServiceRequest.FromString(data).resource_metrics:
            for s in r.scope_metrics:
                print(f"  scope {s.scope.name!r}: {[m.name for m in s.metrics]}")
