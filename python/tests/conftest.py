from __future__ import annotations

from typing import TYPE_CHECKING

import decklog
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from decklog.langchain import CallbackHandler


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def log(path: Path) -> Iterator[decklog.Log]:
    with decklog.open(path) as log:
        yield log


@pytest.fixture
def handler(log: decklog.Log) -> Iterator[CallbackHandler]:
    from decklog.langchain import CallbackHandler

    made = CallbackHandler(log)
    yield made
    made.flush()
    assert made.lost == 0
    made.close()
