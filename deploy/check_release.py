"""Checks the files of a release: `deploy/release --check DIR`."""

import functools
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SAMPLE = ROOT / "tests/data/claude-code-session.jsonl"
IS_WINDOWS = os.name == "nt"
EXE = ".exe" if IS_WINDOWS else ""
EVENT = '{"kind":"events","event_type":"release.checked","payload":{"by":"deploy/release"}}\n'
# What the library sees of a log that the program wrote.
LIBRARY = """
import sys, decklog
with decklog.open(sys.argv[1]) as log:
    turn = log.turn("user", "Does the release work?")
    assert [it.event_type for it in log.events()] == ["release.checked"]
    assert any(it.content == "Does the release work?" for it in log.turns())
print(decklog.__version__)
"""
NODE_LIBRARY = """
const decklog = require('decklog');
const log = decklog.open(process.argv[1]);
const events = [...log.events()].map(it => it.event_type);
if (events.join() !== 'release.checked') throw new Error(`events: ${events}`);
log.close();
console.log(require('decklog/package.json').version);
"""


def tools(*packages):
    """The directory of the programs of packages of PyPI, which are installed below target/."""
    venv = Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target", "release-tools/venv").resolve()
    scripts = venv / ("Scripts" if IS_WINDOWS else "bin")
    if not scripts.exists():
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    install = [scripts / f"python{EXE}", "-m", "pip", "install", "-q", "--disable-pip-version-check", *packages]
    subprocess.run(install, check=True)
    return scripts


class Check:
    def __init__(self, folder):
        self.folder = folder
        self.work = None
        self.passed = 0

    def run(self):
        self.sums()
        os.environ["PATH"] += os.pathsep + str(tools("uv>=0.9", "pipx>=1.7"))
        with tempfile.TemporaryDirectory(prefix="decklog-check-") as work:
            self.work = Path(work)
            self.program()
            self.pip()
            self.uv()
            self.pipx()
            self.npm()
        print(f"{self.passed} passed, 0 failed")

    def file(self, pattern):
        found = sorted(self.folder.glob(pattern))
        if len(found) != 1:
            sys.exit(f"{self.folder} has {len(found)} files {pattern}, not one")
        return found[0]

    @functools.cached_property
    def version(self):
        return self.file("decklog-*-cp310-abi3-*.whl").name.split("-")[1]

    def call(self, *command, text=None, code=0, cwd=None, env=None):
        """The output of a command that must end with this code."""
        command = [str(word) for word in command]
        command[0] = shutil.which(command[0]) or command[0]
        # A store and a key of this run only, and nothing of the Python that runs this.
        env = os.environ | {"DECKLOG_USER_ID_KEY": str(self.work / "user_id.key")} | (env or {})
        for name in ("PYTHONPATH", "DECKLOG_STORE", "VIRTUAL_ENV"):
            env.pop(name, None)
        done = subprocess.run(command, input=text, capture_output=True, text=True, encoding="utf-8",
                              cwd=cwd or self.work, env=env)
        if done.returncode != code:
            sys.exit(f"exit code {done.returncode}, not {code}, of {' '.join(command)}\n{done.stdout}{done.stderr}")
        return done.stdout

    def passes(self, what, condition=True):
        if not condition:
            sys.exit(f"failed: {what}")
        self.passed += 1
        print(f"ok: {what}", flush=True)

    def sums(self):
        listed = set()
        for line in (self.folder / "SHA256SUMS").read_text().splitlines():
            digest, _, name = line.partition("  ")
            listed.add(name)
            if hashlib.sha256((self.folder / name).read_bytes()).hexdigest() != digest:
                sys.exit(f"{name} has another checksum than in SHA256SUMS")
        there = {it.name for it in self.folder.iterdir()} - {"SHA256SUMS"}
        self.passes(f"checksums of {len(listed)} files", there == listed)

    def command(self, name, *command, **more):
        """Imports, records and queries through one way to run the program. Returns the log."""
        store = self.work / name.replace(" ", "-")
        run = functools.partial(self.call, *command, **more)
        self.passes(f"{name} --version", run("--version") == f"decklog {self.version}\n")
        run("--store", store, "import", SAMPLE)
        run("--store", store, "record", text=EVENT)
        calls = [json.loads(line) for line in run("--store", store, "--json", "calls").splitlines()]
        events = [json.loads(line) for line in run("--store", store, "--json", "events").splitlines()]
        self.passes(f"{name}: import, record and query", len(calls) > 0 and len(events) == 1)
        run("--store", store, "verify")
        run("no-such-command", code=2)
        self.passes(f"{name}: exit codes")
        return store

    def program(self):
        with tarfile.open(self.file("decklog-*-*-*.tar.gz")) as tar:
            tar.extractall(self.work, filter="data") if hasattr(tarfile, "data_filter") else tar.extractall(self.work)
        self.command("program of the tarball", next(self.work.glob(f"decklog-*/decklog{EXE}")))

    def pip(self):
        venv = self.work / "venv"
        self.call(sys.executable, "-m", "venv", venv)
        scripts = venv / ("Scripts" if IS_WINDOWS else "bin")
        python = scripts / f"python{EXE}"
        self.call(python, "-m", "pip", "install", "--no-index", "--find-links", self.folder, "decklog")
        store = self.command("pip script", scripts / f"decklog{EXE}")
        self.command("python -m decklog", python, "-m", "decklog")
        self.passes("decklog-cli script", self.call(scripts / f"decklog-cli{EXE}", "--version").startswith("decklog "))
        self.passes("import decklog", self.call(python, "-c", LIBRARY, store).strip() == self.version)
        self.call(python, "-m", "pip", "uninstall", "-y", "decklog", "decklog-cli")
        self.passes("pip uninstall leaves no program", not (scripts / f"decklog{EXE}").exists())

    def uv(self):
        offline = ("--offline", "--no-index", "--find-links", self.folder)
        env = {"UV_CACHE_DIR": str(self.work / "uv-cache"), "UV_TOOL_DIR": str(self.work / "uv-tools"),
               "UV_TOOL_BIN_DIR": str(self.work / "uv-bin")}
        self.command("uvx decklog", "uvx", "-q", *offline, "decklog", env=env)
        self.call("uv", "tool", "install", *offline, "decklog", env=env)
        self.command("uv tool install", self.work / f"uv-bin/decklog{EXE}")

    def pipx(self):
        env = {"PIPX_HOME": str(self.work / "pipx"), "PIPX_BIN_DIR": str(self.work / "pipx-bin"),
               "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(self.folder)}
        self.call("pipx", "install", "--pip-args", f"--no-index --find-links {self.folder}", "decklog", env=env)
        self.command("pipx install", self.work / f"pipx-bin/decklog{EXE}")

    def npm(self):
        if not list(self.folder.glob("decklog-*.tgz")) or not shutil.which("npm"):
            return print("no files for npm, or no npm: npx was not tried")
        project = self.work / "project"
        project.mkdir()
        self.call("npm", "init", "-y", cwd=project)
        # Packages of other platforms are optional, and not there.
        files = sorted(self.folder.glob("decklog-*.tgz"))
        self.call("npm", "install", "--offline", "--no-audit", "--no-fund", *files, cwd=project)
        store = self.command("npx decklog", "npx", "--offline", "--no-install", "decklog", cwd=project)
        self.passes("require('decklog')", self.call("node", "-e", NODE_LIBRARY, store, cwd=project).strip() == self.version)
