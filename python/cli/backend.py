"""Builds the wheel of decklog-cli: that of maturin, with the program inside the package.

maturin installs a program as a script, `bin/decklog`. The package decklog installs a script of that
name too, and pip would overwrite one with the other. So the program becomes `decklog_cli/decklog`,
and the package has a script of its own name, which maturin does not allow beside a program.

If DECKLOG_RELEASE_BINARY is set, the wheel contains that program, and nothing is compiled. Such a
wheel is for this machine: its program was not checked against the oldest systems of a platform tag.
"""

import base64
import csv
import hashlib
import io
import os
import sysconfig
import tempfile
import zipfile
from pathlib import Path

import maturin
from maturin import build_sdist, get_requires_for_build_sdist, get_requires_for_build_wheel  # noqa: F401

PACKAGE = "decklog_cli"
ENTRY_POINTS = f"[console_scripts]\ndecklog-cli={PACKAGE}:main\n"
EXECUTABLE = 0o100755
FILE = 0o100644


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    binary = os.environ.get("DECKLOG_RELEASE_BINARY")
    with tempfile.TemporaryDirectory() as folder:
        if binary:
            files, name = around(Path(binary), folder, config_settings)
        else:
            name = maturin.build_wheel(folder, config_settings)
            files = moved(Path(folder, name))
    write(Path(wheel_directory, name), files)
    print(name)
    return name


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    info = maturin.prepare_metadata_for_build_wheel(metadata_directory, config_settings)
    Path(metadata_directory, info, "entry_points.txt").write_text(ENTRY_POINTS, newline="\n")
    return info


def moved(wheel):
    """The files of the wheel of maturin, with the program in the package."""
    files = {}
    with zipfile.ZipFile(wheel) as source:
        for name in source.namelist():
            folder, _, rest = name.partition("/")
            if not folder.endswith(".data"):
                files[name] = source.read(name)
            elif rest in ("scripts/decklog", "scripts/decklog.exe"):
                files[rest.replace("scripts", PACKAGE, 1)] = source.read(name)
            else:
                raise ValueError(f"{name} in the wheel of maturin is not the program")
            if name.endswith(".dist-info/WHEEL"):
                files[name.replace("WHEEL", "entry_points.txt")] = ENTRY_POINTS.encode()
    return files


def around(binary, folder, config_settings):
    """The files of a wheel with a program that was built before, and the wheel's name."""
    info = prepare_metadata_for_build_wheel(folder, config_settings)
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    tag = f"py3-none-{platform}"
    files = {f"{PACKAGE}/{binary.name}": binary.read_bytes()}
    for path in sorted(path for path in Path(PACKAGE).iterdir() if path.suffix in (".py", ".typed")):
        files[path.as_posix()] = path.read_bytes()
    for path in sorted(path for path in Path(folder, info).rglob("*") if path.is_file()):
        files[path.relative_to(folder).as_posix()] = path.read_bytes()
    files[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: decklog\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()
    return files, f"{info.removesuffix('.dist-info')}-{tag}.whl"


def write(wheel, files):
    """Write the wheel, with the same bytes for the same files."""
    # In the order of the standard: what describes the package is at its end.
    files = dict(sorted(files.items(), key=lambda it: (".dist-info/" in it[0], it[0])))
    record = next(name for name in files if name.endswith(".dist-info/WHEEL")).replace("WHEEL", "RECORD")
    files.pop(record, None)
    lines = io.StringIO()
    rows = csv.writer(lines, lineterminator="\n")
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        rows.writerow([name, f"sha256={digest}", len(data)])
    rows.writerow([record, "", ""])
    files[record] = lines.getvalue().encode()
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as target:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            is_program = name in (f"{PACKAGE}/decklog", f"{PACKAGE}/decklog.exe")
            entry.external_attr = (EXECUTABLE if is_program else FILE) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            target.writestr(entry, data)
