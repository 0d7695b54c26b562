"""Ships stores: DIR/jsonl and DIR/parquet get objects kind=K/day=D/store=S/….

    layout.py DECKLOG DIR STORE...

Through `decklog ship`. A format that this decklog does not write is written here, as it will.
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


def offers(decklog, command, word):
    """Whether the help of a command mentions this."""
    help = subprocess.run([decklog, *command, "--help"], capture_output=True, text=True)
    return help.returncode == 0 and word in help.stdout


def ship(decklog, stores, to, format):
    for store in stores:
        command = [decklog, "--store", store, "ship", to, "--format", format]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def write_jsonl(stores, root):
    """Objects of the lines as they are, in several zstd frames."""
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


def repeat(root):
    """Copies the first half of some objects: for a moment, a part and the sealed object have the
    same lines."""
    import pyarrow.parquet as pq
    import zstandard

    for path in sorted(root.glob("kind=*/day=*3/store=*/*")):
        copy = path.with_name(f"9999.{path.name.partition('.')[2]}")
        if path.suffix == ".parquet":
            table = pq.read_table(path, partitioning=None)
            pq.write_table(table.slice(0, (table.num_rows + 1) // 2), copy, compression="zstd")
        else:
            with open(path, "rb") as object:
                lines = zstandard.ZstdDecompressor().stream_reader(object, read_across_frames=True).read()
            half = lines[: lines.rfind(b"\n", 0, len(lines) // 2) + 1]
            copy.write_bytes(zstandard.compress(half))


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


def main(decklog, to, *stores):
    jsonl, parquet = (pathlib.Path(to) / format for format in ("jsonl", "parquet"))
    if offers(decklog, ["ship"], "s3://"):
        ship(decklog, stores, jsonl, "jsonl")
    else:
        write_jsonl(stores, jsonl)
    if offers(decklog, ["ship"], "parquet"):
        ship(decklog, stores, parquet, "parquet")
    else:
        write_parquet(stores, parquet, fields(decklog))
    repeat(jsonl)
    repeat(parquet)


if __name__ == "__main__":
    main(*sys.argv[1:])
