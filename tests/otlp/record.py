#!/usr/bin/env python3
"""Records what instrumentations of Python send over OTLP/HTTP, and what was sent to the model.

    record.py [--venvs DIRECTORY] [--out DIRECTORY] [NAME...]

Each scenario runs in a virtual environment with the versions of requirements-*.txt against
fake_model.py and sink.py; tests/data/otlp/NAME/ then holds the bodies as they came, and in
sent.ndjson each exchange with the model.
"""
import argparse
import os
import shutil
import subprocess
import sys

import fake_model
import sink

HERE = os.path.dirname(os.path.abspath(__file__))
CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
LATEST = {"OTEL_SEMCONV_STABILITY_OPT_IN": "gen_ai_latest_experimental"}
EMIT = {"OTEL_INSTRUMENTATION_GENAI_EMIT_EVENT": "true"}
SCENARIOS = {  # name: (requirements, environment)
    "openai-v2-legacy": ("openai-v2", {CAPTURE: "true", "WITH_METRICS": "1"}),
    "openai-v2-latest": ("openai-v2", {CAPTURE: "span_only", **LATEST, "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip"}),
    "openai-v2-events": ("openai-v2", {CAPTURE: "event_only", **LATEST, **EMIT}),
    "genai-openai": ("genai", {CAPTURE: "span_and_event", **LATEST, **EMIT}),
    "genai-anthropic": ("genai", {CAPTURE: "span_only", **LATEST}),
    "genai-langchain": ("genai", {CAPTURE: "span_only", **LATEST}),
    "openllmetry-openai": ("openllmetry", {"TRACELOOP_TRACE_CONTENT": "true"}),
    "openllmetry-openai-events": ("openllmetry", {"TRACELOOP_TRACE_CONTENT": "true"}),
    "openllmetry-anthropic": ("openllmetry", {"TRACELOOP_TRACE_CONTENT": "true"}),
    "openllmetry-langchain": ("openllmetry", {"TRACELOOP_TRACE_CONTENT": "true",
                                              "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip"}),
    "openinference-openai": ("openinference", {"OTEL_EXPORTER_OTLP_COMPRESSION": "gzip"}),
    "openinference-anthropic": ("openinference", {}),
    "openinference-langchain": ("openinference", {"OTEL_EXPORTER_OTLP_COMPRESSION": "gzip"}),
    "pydantic-ai": ("pydantic-ai", {}),
    "python-manual": ("manual", {}),
}


def python_of(venvs, requirements):
    """The interpreter of the environment for requirements-*.txt, made if it is not there."""
    place = os.path.join(venvs, requirements)
    python = os.path.join(place, "bin", "python")
    if not os.path.exists(python):
        subprocess.run([sys.executable, "-m", "venv", place], check=True)
    subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "-r",
                    os.path.join(HERE, f"requirements-{requirements}.txt")], check=True)
    return python


def record(name, venvs, out):
    requirements, more = SCENARIOS[name]
    python = python_of(venvs, requirements)
    place = os.path.join(out, name)
    shutil.rmtree(place, ignore_errors=True)
    to = sink.serve(place, metrics=1)
    model = fake_model.serve(os.path.join(place, "sent.ndjson"))
    inherited = {k: v for k, v in os.environ.items() if k in ("PATH", "HOME", "LANG", "TMPDIR")}
    env = {**inherited, **more, "PYTHONUTF8": "1", "PYTHONDONTWRITEBYTECODE": "1",
           "MODEL_URL": f"http://127.0.0.1:{model.server_address[1]}/v1",
           "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{to.server_address[1]}",
           "OTEL_SERVICE_NAME": "weather-agent",
           "OTEL_RESOURCE_ATTRIBUTES": "service.version=1.0,deployment.environment.name=test"}
    done = subprocess.run([python, os.path.join(HERE, "scenarios.py"), name], env=env, timeout=120)
    model.shutdown()
    to.shutdown()
    size = sum(os.path.getsize(os.path.join(place, f)) for f in os.listdir(place))
    print(f"{name}: exit {done.returncode}, {len(os.listdir(place)) - 1} bodies, {size} bytes", flush=True)
    return done.returncode == 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--venvs", default=os.path.join(HERE, ".venvs"))
    parser.add_argument("--out", default=os.path.join(HERE, "..", "data", "otlp"))
    parser.add_argument("names", nargs="*", default=list(SCENARIOS))
    args = parser.parse_args()
    good = [record(name, args.venvs, args.out) for name in args.names or SCENARIOS]
    sys.exit(0 if all(good) else 1)
