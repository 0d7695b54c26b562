"""Ships stores to DIR/jsonl and DIR/parquet, with `decklog ship`.

    layout.py DECKLOG DIR STORE...
"""
import pathlib
import subprocess
import sys


def ship(decklog, stores, to, format):
    for store in stores:
        command = [decklog, "--store", store, "ship", to, "--format", format]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


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


def main(decklog, to, *stores):
    for format in ("jsonl", "parquet"):
        folder = pathlib.Path(to) / format
        ship(decklog, stores, folder, format)
        repeat(folder)


if __name__ == "__main__":
    main(*sys.argv[1:])
