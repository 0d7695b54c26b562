#!/usr/bin/env python3
"""Ships a log that changes to an S3 server in trouble, and kills the shippers.

    faults.py DECKLOG [--rounds N] [--seed N] [--share F] [--late S] [--patience S]

A proxy between decklog and the server answers some requests with errors, late, or not at all, or
ends their connections (proxy.py). Each round changes a log, runs one or two shippers and may kill
them, and repeats until one succeeds. Now and then, and at the end, what is there must be exactly the
log: each line once, nothing that was erased, and nothing damaged. The same seed gives the same
changes and faults, but not the same moments. tests/fleet/run calls it; alone, it runs with the
Python of target/fleet/venv.
"""
import argparse
import base64
import collections
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

import zstandard

import engines
import generate
import proxy
import s3

# Fewer days than the fleet has: a run lists the objects of each that a killed run changed.
generate.DAYS = 6

# Runs of one round that may fail before the test does.
TRIES_MAX = 20


class Log:
    """A log that grows and changes at random."""

    def __init__(self, decklog, dir, seed, records):
        self.decklog, self.dir, self.store = decklog, dir, dir / "log"
        self.random = random.Random(seed)
        made = generate.Store(0, seed)
        made.fill(records)
        self.lines = made.lines
        self.conversations, self.erased = [], []
        self.environment = {**os.environ, "DECKLOG_USER_ID_KEY": str(dir / "user-id.key"), "AWS_ACCESS_KEY_ID": s3.KEY,
                            "AWS_SECRET_ACCESS_KEY": s3.SECRET, "AWS_REGION": "us-east-1"}

    def run(self, *arguments, endpoint=None, **more):
        subprocess.run(**self.command(arguments, endpoint), check=True, stdout=subprocess.DEVNULL, **more)

    def command(self, arguments, endpoint=None):
        environment = {**self.environment, **({"AWS_ENDPOINT_URL": endpoint} if endpoint else {})}
        return {"args": [self.decklog, "--store", self.store, *arguments], "env": environment}

    def record(self, lines):
        self.run("record", input=("\n".join(lines) + "\n").encode())

    def converse(self, size=40):
        """A conversation with a word of its own."""
        at = generate.rfc3339(generate.FIRST_MS + self.random.randrange(generate.DAYS) * generate.DAY_MS)
        id = f"{self.random.getrandbits(128):032x}"
        id = f"{id[:8]}-{id[8:12]}-4{id[13:16]}-a{id[17:20]}-{id[20:]}"
        lines = [f'{{"kind":"conversations","id":"{id}","client":"cli","status":"active","created_at":"{at}","updated_at":"{at}"}}']
        for nth in range(3):
            text = f"word-{id} {base64.b64encode(self.random.randbytes(size)).decode()}"
            lines.append(f'{{"kind":"messages","conversation_id":"{id}","sequence":{nth + 1},"timestamp":"{at}","role":"user","content":"{text}"}}')
        self.record(lines)
        self.conversations.append(id)
        return id

    def change(self, nth, rounds):
        """The changes of a round."""
        count = len(self.lines) // (rounds - nth)
        if count:
            self.record(self.lines[:count])
            del self.lines[:count]
        if self.random.random() < 0.7:
            self.converse()
        chance = self.random.random()
        if chance < 0.25:
            self.run("seal")
        elif chance < 0.35:
            self.run("compact", "--keep-days", "0")
        elif chance < 0.65 and self.conversations:
            id = self.conversations.pop(self.random.randrange(len(self.conversations)))
            self.run("erase", "--conversation", id)
            self.erased.append(id)

    def facts(self, dir):
        """The files that hold facts, by name."""
        names = [path for path in dir.rglob("*") if path.is_file()]
        names = [str(path.relative_to(dir)) for path in names]
        is_fact = re.compile(r"\d{4}-\d\d-\d\d/|decklog\.json$|removals\.jsonl$").match
        return {name: (dir / name).read_bytes() for name in names if is_fact(name)}


def check(log, server, destination):
    """What is there is exactly the log."""
    log.run("verify", destination, endpoint=server.url)
    again = log.dir / "again"
    shutil.rmtree(again, ignore_errors=True)
    log.run("pull", destination, again, endpoint=server.url)
    subprocess.run([log.decklog, "--store", again, "verify", "--deep"], check=True, stdout=subprocess.PIPE)
    here, there = log.facts(log.store), log.facts(again)
    assert here.keys() == there.keys(), here.keys() ^ there.keys()
    for name, bytes in here.items():
        assert bytes == there[name], f"{name} differs"

    found, expected = collections.defaultdict(list), collections.defaultdict(list)
    pages = server.client.get_paginator("list_objects_v2").paginate(Bucket=s3.BUCKET)
    for object in (object for page in pages for object in page.get("Contents", [])):
        name = object["Key"]
        bytes = server.client.get_object(Bucket=s3.BUCKET, Key=name)["Body"].read()
        if name.endswith(".zst"):
            bytes = zstandard.ZstdDecompressor().stream_reader(bytes, read_across_frames=True).read()
            kind = re.search(r"/kind=(\w+)/", name)[1]
            found[kind] += bytes.splitlines()
        for id in log.erased:
            assert id.encode() not in bytes or "removals" in name, f"{id} was erased and is in {name}"
    for name, bytes in here.items():
        if "/" in name and "seals" not in name:
            expected[name.split("/")[1].split(".")[0]] += bytes.splitlines()
    for kind in expected.keys() | found.keys():
        assert sorted(found[kind]) == sorted(expected[kind]), f"lines of {kind} differ"
    seqs = [json.loads(line)["seq"] for lines in found.values() for line in lines]
    assert len(seqs) == len(set(seqs)), "some line is there twice"
    shutil.rmtree(again)
    return len(seqs)


def ship(log, faulty, errors):
    """Ships once, or twice at the same time, and may kill. Returns whether a run succeeded that
    began after the last change."""
    # The lock of a machine is by the name of the destination: these are as of two machines.
    names = log.random.choice([["s3"], ["s3"], ["s3", "s3"], ["s3", "s3a"]])
    kills = log.random.random() < 0.5
    runs = []
    for name in names:
        follows = ["--follow"] if kills and log.random.random() < 0.3 else []
        command = log.command(["ship", f"{name}://{s3.BUCKET}/logs", *follows], faulty.url)
        runs.append(subprocess.Popen(**command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE))
    if kills:
        time.sleep(log.random.random() * 1.5)
        for run in runs:
            run.kill()
    succeeded = False
    for run in runs:
        said = run.communicate()[1].decode()
        succeeded = succeeded or run.returncode == 0
        if run.returncode > 0:
            line = said.strip().splitlines()[-1]
            assert line.startswith("decklog: "), said
            errors[f"{run.returncode} {line}"] += 1
        assert "panicked" not in said, said
    # What a killed process had sent to S3 may still be done.
    faulty.wait_until_idle()
    return succeeded, len(runs), kills * len(runs)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("decklog", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--share", type=float, default=0.3, help="share of requests that get a fault")
    parser.add_argument("--late", type=float, default=1, help="a late answer is late by at most this many seconds")
    parser.add_argument("--patience", type=float, default=2, help="a connection without an answer is ended after this many seconds")
    args = parser.parse_args()
    began = time.monotonic()
    server = s3.Server(engines.free_port())
    faulty = proxy.Proxy(server.host, args.seed, args.share, args.late, args.patience)
    destination = f"s3://{s3.BUCKET}/logs"
    runs = kills = lines = 0
    errors = collections.Counter()
    try:
        with tempfile.TemporaryDirectory() as dir:
            log = Log(args.decklog.resolve(), pathlib.Path(dir), args.seed, 60 * args.rounds)
            for nth in range(args.rounds):
                log.change(nth, args.rounds)
                if nth == args.rounds // 2:
                    # One that is uploaded in parts.
                    log.converse(4_000_000)
                for tried in range(1, TRIES_MAX + 1):
                    succeeded, ran, killed = ship(log, faulty, errors)
                    runs, kills = runs + ran, kills + killed
                    if succeeded:
                        break
                    assert tried < TRIES_MAX, f"no run succeeded: {errors}"
                if nth % 10 == 9 or nth + 1 == args.rounds:
                    lines = check(log, server, destination)
    finally:
        server.stop()
    for error, count in errors.most_common():
        print(f"{count} times: {error[:300]}")
    faults = {fault: count for fault, count in faulty.faults.items() if fault}
    by_fault = ", ".join(f"{count} {fault!r}" for fault, count in sorted(faults.items()))
    print(f"{args.rounds} rounds, {runs} runs, {kills} of them killed, {lines} lines, {len(log.erased)} conversations erased: equal")
    print(f"{faulty.requests} requests, {sum(faults.values())} with a fault: {by_fault}; {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    sys.exit(main())
