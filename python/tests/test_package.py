"""What the package exports, and its exceptions and types of arguments."""

from __future__ import annotations

import copy
import datetime
import pickle
import uuid
from typing import Any

import decklog
import pytest


def test_an_error_of_a_batch_can_be_pickled_and_copied() -> None:
    wrong = decklog.InvalidInputError("no", field="x")
    error = decklog.BatchError([wrong, 5], 1)
    error.path = "p"
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert (type(again), str(again), again.path) == (decklog.BatchError, str(error), "p")
        assert (str(again.results[0]), again.results[1]) == ("no", 5)


def test_an_acknowledgement_can_be_pickled_and_copied(log: decklog.Log) -> None:
    talk = log.conversation()
    acks = [
        log.record({"event_type": "a.b", "created_at": 1766832}, kind="events"),
        log.record({"kind": "user", "content": "hi"}),
        talk.user("hi"),
    ]
    assert acks[0].warning is not None
    for ack in acks:
        for again in (pickle.loads(pickle.dumps(ack)), copy.copy(ack), copy.deepcopy(ack)):
            assert again == ack
            assert hash(again) == hash(ack)
            fields = (again.seq, again.status, again.id, again.sequence, again.warning)
            assert fields == (ack.seq, ack.status, ack.id, ack.sequence, ack.warning)
    assert acks[0] != acks[1]
    with pytest.raises(decklog.InvalidInputError, match="status"):
        decklog.Ack(1, "lost")  # type: ignore[arg-type]


def test_a_star_import_keeps_the_open_of_python() -> None:
    names: dict[str, Any] = {}
    exec("from decklog import *", names)
    assert "open" not in names
    assert "Log" in names
    assert "open" in dir(decklog)


def test_columns_that_are_one_text_are_refused(log: decklog.Log) -> None:
    with pytest.raises(decklog.InvalidInputError, match=r"\['id'\]") as raised:
        log.to_arrow("events", columns="id")
    assert raised.value.field == "columns"


def test_ids_and_times_may_be_objects(log: decklog.Log) -> None:
    turn = uuid.UUID(log.turn("user", "hi").id)
    assert log.get_turn(turn) is not None
    talk = log.conversation()
    assert log.conversation(uuid.UUID(talk.id)).id == talk.id
    thread = uuid.UUID(log.run().thread_id)
    assert log.run(thread_id=thread).thread_id == str(thread)
    now = datetime.datetime.now(datetime.timezone.utc)
    assert list(log.turns(since=now + datetime.timedelta(days=1), thread_id=thread)) == []
