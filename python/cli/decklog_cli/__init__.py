"""The program decklog, as a file of this package.

The command `decklog` of the package decklog runs it. This package is small on purpose: the command
starts as fast as Python does.
"""

import os
import sys

__all__ = ["main", "path"]


def path() -> str:
    """The path of the program."""
    name = "decklog.exe" if os.name == "nt" else "decklog"
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), name)


def main() -> None:
    """Run the program with the arguments of this process, in its place where the system can do so."""
    program = path()
    arguments = [program, *sys.argv[1:]]
    try:
        if os.name != "nt":
            os.execv(program, arguments)
        # Windows starts another process instead of replacing this one, so this one waits. Ctrl-C is
        # for the program, which receives it too.
        import signal
        import subprocess

        signal.signal(signal.SIGINT, signal.SIG_IGN)
        sys.exit(subprocess.call(arguments))
    except OSError as error:
        sys.exit(f"decklog: cannot run {program}: {error.strerror}. Install decklog-cli again.")
