"""What schemathesis has to be told of the service beside its description."""

import json
import os
import re

import schemathesis
from schemathesis.core.failures import Failure
from schemathesis.core.parameters import ParameterLocation

NDJSON = "application/x-ndjson"


@schemathesis.serializer(NDJSON)
def lines(_context, value):
    """An array as one JSON value a line; anything else, which is sent as wrong data, as one line."""
    if isinstance(value, bytes):
        return value
    values = value if isinstance(value, list) else [value]
    return "".join(json.dumps(one) + "\n" for one in values).encode()


@schemathesis.deserializer(NDJSON)
def results(_context, response):
    return [json.loads(line) for line in response.content.split(b"\n") if line]


@schemathesis.hook
def before_load_schema(_context, schema):
    """The description has to say that a server may be open to all. This one is not."""
    if os.environ.get("DECKLOG_TOKEN"):
        schema["security"] = [one for one in schema["security"] if one]


def fulfil(record, path):
    """Fulfils the rules between the fields of a record that no JSON Schema can state. What is of
    another type than the schema says stays as it is."""
    if not isinstance(record, dict):
        return
    # An id in a body is that of the path.
    for name in path:
        if record.get(name) is not None and is_id(name, record[name]) and is_id(name, path[name]):
            record[name] = path[name]
    # A conversation is not its own parent.
    if isinstance(record.get("id"), str) and record["id"] == record.get("parent_id"):
        del record["parent_id"]
    # What is changed was made before.
    made, changed = record.get("created_at"), record.get("updated_at")
    if "client" in record and is_time(made or changed) and (changed is None or is_time(changed)):
        record["updated_at"] = made
    # A hash is that of the arguments, which are enough.
    if record.get("arguments_json") is not None and isinstance(record.get("args_sha256"), str):
        del record["args_sha256"]
    # A sum is not less than its parts.
    for whole, parts in SUMS.items():
        number = {name: record.get(name) or 0 for name in [whole, *parts]}
        if all(type(it) in (int, float) for it in number.values()) and number[whole] < sum(number[it] for it in parts):
            for name in parts:
                record.pop(name, None)
    # A time that is given twice is the same.
    own = [record.get(name) for name in ["created_at", "decided_at", "applied_at", "locked_at"]]
    if type(record.get("at")) in (int, float, str) and any(type(time) in (int, float, str, dict) for time in own):
        del record["at"]
    # A log that has the greatest number which can be given takes the one after it, too.
    for name in ["id", "update_id", "sequence"]:
        if record.get(name) == NUMBER_MAX + 1:
            record[name] = 2 * NUMBER_MAX
    messages = record.get("messages")
    for message in messages if isinstance(messages, list) else []:
        fulfil(message, {"conversation_id": record.get("id")})
        # Nor is it known before the conversation has one.
        if record.get("id") is None and isinstance(message, dict) and is_id("id", message.get("conversation_id")):
            del message["conversation_id"]


UUID = r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"


def is_id(name, value):
    if not isinstance(value, str):
        return False
    return 0 < len(value) <= 1024 if name == "call_id" else re.fullmatch(UUID, value)


def is_time(value):
    return isinstance(value, str) and re.match(r"\d{4}-\d\d-\d\dT", value)


NUMBER_MAX = 2**52
SUMS = {"tokens_in": ["tokens_cache_write", "tokens_cache_read"], "tokens_cache_write": ["tokens_cache_write_1h"], "tokens_out": ["tokens_reasoning"]}

@schemathesis.hook
def before_call(_context, case, _kwargs):
    path = dict(case.path_parameters or {})
    if case.operation.path.startswith("/conversations/{id}"):
        path["conversation_id"] = path.pop("id", None)
    for record in case.body if isinstance(case.body, list) else [case.body]:
        fulfil(record, path)
    # Costs have one period. No JSON Schema says that of the items of a list.
    by = (case.query or {}).get("by")
    if case.operation.path == "/analytics/cost" and isinstance(by, (list, str)):
        words = by.split(",") if isinstance(by, str) else by
        periods = [one for one in words if one in ("day", "week", "month")]
        words = [one for one in words if one not in periods[1:] or one == periods[0]]
        case.query["by"] = ",".join(words) if isinstance(by, str) else words



class WrongLine(Failure):
    """A line of /records was answered otherwise than the description has it."""

    __slots__ = ()


@schemathesis.check
def lines_are_judged(_context, response, case):
    """What `positive_data_acceptance` and `negative_data_rejection` are for other operations: /records
    answers 200 and tells of each line whether it was taken."""
    if case.operation.label != "POST /records" or response.status_code != 200 or case.meta is None:
        return
    answers = [json.loads(line) for line in response.content.split(b"\n") if line]
    rejected = [one for one in answers if one["status"] == "rejected"]
    wrong = [one for one in rejected if one["problem"]["status"] in (400, 422)]
    message = None
    body = case.meta.components.get(ParameterLocation.BODY)
    if case.meta.generation.mode.is_positive:
        if wrong:
            message = f"A line that fits the schema is rejected: {wrong[0]}"
    elif body and body.mode.is_negative and not rejected:
        message = f"No line is rejected, though the body does not fit the schema: {answers}"
    if message:
        raise WrongLine(operation=case.operation.label, title="Line judged wrongly", message=message)
