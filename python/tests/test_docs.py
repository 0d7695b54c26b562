"""The examples of all docstrings run, and what is public has a docstring."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
from typing import TYPE_CHECKING, Any

import decklog
import pytest

if TYPE_CHECKING:
    from pathlib import Path


def _modules() -> list[Any]:
    found = [decklog, decklog._decklog]
    for module in pkgutil.walk_packages(decklog.__path__, "decklog."):
        if module.name.endswith("__main__"):
            continue
        try:
            found.append(importlib.import_module(module.name))
        except ImportError as error:
            # A module for another package, which is not installed.
            assert not str(error.name).startswith("decklog"), error
    return found


def _documented() -> dict[str, tuple[str, dict[str, Any]]]:
    """The docstrings with examples, each with the names of its module."""
    texts: dict[str, tuple[str, dict[str, Any]]] = {}
    for module in _modules():
        names = dict(vars(module))
        texts[module.__name__] = (module.__doc__ or "", {})
        for name, value in vars(module).items():
            if not getattr(value, "__module__", "").startswith("decklog"):
                continue
            if inspect.isclass(value):
                texts[value.__qualname__] = (value.__doc__ or "", names)
                for member, it in vars(value).items():
                    text = getattr(it, "__doc__", None)
                    if not member.startswith("_") and text:
                        texts[f"{value.__qualname__}.{member}"] = (text, names)
            elif callable(value):
                texts[name] = (value.__doc__ or "", names)
    return {name: it for name, it in texts.items() if ">>>" in it[0]}


_EXAMPLES = _documented()


@pytest.mark.parametrize("name", sorted(_EXAMPLES))
def test_an_example_gives_what_it_says(name: str, path: Path) -> None:
    text, names = _EXAMPLES[name]
    with decklog.open(path) as log:
        globs = {**names, "decklog": decklog, "log": log}
        example = doctest.DocTestParser().get_doctest(text, globs, name, None, 0)
        shown: list[str] = []
        failed = doctest.DocTestRunner(verbose=False).run(example, out=shown.append).failed
    assert not failed, "".join(shown)


def test_examples_are_found() -> None:
    assert len(_EXAMPLES) >= 15
    assert {"Log.record", "Log.tool_call", "decklog", "args_sha256"} <= set(_EXAMPLES)


def _public() -> list[tuple[str, Any]]:
    found = []
    for name in decklog.__all__:
        if name.startswith("__"):
            continue
        value = getattr(decklog, name)
        found.append((name, value))
        if inspect.isclass(value) and not hasattr(value, "_decklog"):
            members = inspect.getmembers(value)
            own = ((f"{name}.{member}", it) for member, it in members if member[0] != "_")
            found += [(name, it) for name, it in own if callable(it) or isinstance(it, property)]
    return found


def test_what_is_public_is_documented() -> None:
    undocumented = [
        name
        for name, it in _public()
        if not (it.__doc__ or "").strip() and not name.endswith((".with_traceback", ".add_note"))
    ]
    assert undocumented == []
