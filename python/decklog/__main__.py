"""`python -m decklog` is the command `decklog`."""

import sys

try:
    from decklog_cli import main
except ModuleNotFoundError:
    sys.exit("decklog: the program is in the package decklog-cli, which is not installed: pip install decklog-cli")

main()
