"""Writes the segments of stores as shipped objects: kind=K/day=D/store=S/0001.jsonl.zst or .parquet.

Until `decklog ship` is asked for it, this stands for what it writes.
"""
import collections
import datetime
import json
import pathlib
import re
import subprocess
import sys

SEGMENT = re.compile(r"([a-z_]+)\.(\d{4}|[1-9]\d{4,})\.jsonl")


def segments(store):
    """The segments of a store, by day and kind, in their order."""
    found = collections.defaultdict(list)
    for path in sorted(pathlib.Path(store).glob("????-??-??/*.jsonl")):
        if named := SEGMENT.fullmatch(path.name):
            found[path.parent.name, named[1]].append(path)
    return found


def store_id(store):
    manifest = json.loads((pathlib.Path(store) / "decklog.json").read_bytes())
    return manifest["store_id"]


def fields(decklog):
    """The fields of each kind, with their types."""
    out = subprocess.run([decklog, "schema", "--json"], check=True, capture_output=True).stdout
    kinds = map(json.loads, out.splitlines())
    return {kind["kind"]: {f["name"]: f["type"] for f in kind["fields"]} for kind in kinds}


def write_jsonl(stores, root):
    """Objects of the lines as they are, in several zstd frames; some lines are in two objects."""
    import zstandard

    compress = zstandard.ZstdCompressor(3).compress
    for store in stores:
        id = store_id(store)
        for (day, kind), paths in segments(store).items():
            lines = b"".join(path.read_bytes() for path in paths)
            half = lines.rfind(b"\n", 0, len(lines) // 2) + 1
            object = compress(lines[:half]) + compress(lines[half:]) if half else compress(lines)
            folder = root / f"kind={kind}/day={day}/store={id}"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "0001.jsonl.zst").write_bytes(object)
            if half and day.endswith("3"):
                # For a moment, a part and the sealed object have the same lines.
                (folder / "0001.000000000000.jsonl.zst").write_bytes(compress(lines[:half]))


def write_parquet(stores, root, kinds):
    """Objects with a typed column for each field."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    instant = pa.timestamp("ms", tz="UTC")
    types = {"integer": pa.int64(), "number": pa.float64(), "boolean": pa.bool_(), "epoch_ms": instant,
             "rfc3339": instant, "day": pa.date32()}

    def converted(value, type):
        if value is None:
            return None
        if type == "epoch_ms":
            return value
        if type == "rfc3339":
            instant = datetime.datetime.fromisoformat(value.upper().replace(":60", ":59")).timestamp()
            return int((instant + (":60" in value)) * 1000 + 0.5)
        if type == "day":
            return datetime.date.fromisoformat(value)
        if type in ("texts", "json", "object"):
            return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        return value

    schemas = {}
    for kind, named in kinds.items():
        columns = [("seq", pa.int64()), ("at", instant), ("op", pa.string())]
        columns += [(name, types.get(type, pa.string())) for name, type in named.items()]
        schemas[kind] = pa.schema(columns)
    for store in stores:
        id = store_id(store)
        for (day, kind), paths in segments(store).items():
            rows = [json.loads(line) for path in paths for line in path.read_bytes().splitlines()]
            given = {"at": "epoch_ms", **kinds[kind]}
            columns = [
                pa.array([converted(row.get(name), given.get(name, "")) for row in rows], schemas[kind].field(name).type)
                for name in schemas[kind].names
            ]
            folder = root / f"kind={kind}/day={day}/store={id}"
            folder.mkdir(parents=True, exist_ok=True)
            table = pa.Table.from_arrays(columns, schema=schemas[kind])
            pq.write_table(table, folder / "0001.parquet", compression="zstd")
            if day.endswith("3"):
                half = table.slice(0, (len(rows) + 1) // 2)
                pq.write_table(half, folder / "0001.000000000000.parquet", compression="zstd")


if __name__ == "__main__":
    decklog, to, *stores = sys.argv[1:]
    write_jsonl(stores, pathlib.Path(to) / "jsonl")
    write_parquet(stores, pathlib.Path(to) / "parquet", fields(decklog))
