"""Runs through all that the server offers with the client of PyPI's `mcp`.

    client.py ERA STORE URL
    client.py ERA STORE -- COMMAND [ARGUMENT...]

ERA is `legacy` for the protocol up to 2025-11-25 or `auto` for the latest that both know. STORE is
where the server keeps its log: what reads must not change it. The first failure ends it, with 1.
"""

import json
import re
import sys
import time
import warnings
from datetime import datetime, timezone
from pathlib import Path

import anyio
import jsonschema
from mcp import Client, MCPDeprecationWarning, MCPError, StdioServerParameters, types

HERE = Path(__file__).parent
CALLS = json.loads((HERE / "calls.json").read_text())
NAMES = {call["tool"] for call in CALLS}
TEMPLATES = {
    "decklog://conversations/{id}{?after}",
    "decklog://days/{day}/{kind}{?after}",
    "decklog://events/{id}/tree{?after}",
    "decklog://thoughts/{task_id}{?after}",
}
PROMPTS = {
    "what_happened": {"run": "1"},
    "daily_review": {"day": datetime.now(timezone.utc).strftime("%Y-%m-%d")},
    "find_failures": {"since": "2020-01-01"},
}
INVALID_PARAMS = -32602
NOT_FOUND = {"legacy": -32002, "auto": INVALID_PARAMS}
# Nowhere in a log: all of it is read.
ABSENT = "no ship has this name"
PATIENCE_S = 20


class Failed(Exception):
    pass


def expect(holds, what):
    if not holds:
        raise Failed(what)


def filled(value, saved):
    """A value with what earlier calls gave in the place of ${name}."""
    if isinstance(value, dict):
        return {name: filled(member, saved) for name, member in value.items()}
    if isinstance(value, list):
        return [filled(item, saved) for item in value]
    if isinstance(value, str) and (whole := re.fullmatch(r"\$\{(\w+)\}", value)):
        return saved[whole[1]]
    return value


def at(value, pointer):
    for step in pointer.split("/")[1:]:
        value = value[int(step)] if isinstance(value, list) else value[step]
    return value


def size(store):
    """The bytes of all that was recorded."""
    return sum(file.stat().st_size for file in Path(store).glob("*/*.jsonl"))


class Session:
    def __init__(self, era, store, server):
        self.era = era
        self.store = store
        self.saved = {}
        self.updated = []
        self.client = Client(
            server, mode=era, message_handler=self.hear, read_timeout_seconds=PATIENCE_S
        )

    async def hear(self, message):
        if isinstance(message, types.ResourceUpdatedNotification):
            self.updated.append(str(message.params.uri))

    async def refused(self, code, call, what):
        try:
            answer = await call
        except MCPError as error:
            expect(error.code == code, f"{what}: {error.code}, not {code}: {error.message}")
        else:
            expect(False, f"{what} was answered: {answer}")

    async def tools(self):
        """Every tool is described so that a model can choose it, and a client check it."""
        listed, cursor = [], None
        while True:
            page = await self.client.list_tools(cursor=cursor)
            listed += page.tools
            cursor = page.next_cursor
            if cursor is None:
                break
        names = {tool.name for tool in listed}
        expect(len(names) == len(listed), "two tools have the same name")
        expect(names == NAMES, f"tools differ from those called: {names ^ NAMES}")
        for tool in listed:
            name = tool.name
            expect(len(tool.description or "") >= 30, f"{name} says too little of itself")
            schema = tool.input_schema
            jsonschema.Draft202012Validator.check_schema(schema)
            expect(schema["additionalProperties"] is False, f"{name} takes any argument")
            for argument, about in schema.get("properties", {}).items():
                expect("description" in about, f"{name} says nothing of {argument}")
            expect(tool.output_schema, f"{name} has no output schema")
            jsonschema.Draft202012Validator.check_schema(tool.output_schema)
            hints = tool.annotations
            for hint in ("read_only_hint", "destructive_hint", "idempotent_hint", "open_world_hint"):
                expect(isinstance(getattr(hints, hint), bool), f"{name} has no {hint}")
            expect(not hints.open_world_hint, f"{name} reaches beyond the log")
        self.listed = {tool.name: tool for tool in listed}
        return len(listed)

    async def call(self, call):
        name, arguments = call["tool"], filled(call["arguments"], self.saved)
        tool, what = self.listed[name], f"{name} {json.dumps(arguments)}"
        before = size(self.store)
        result = await self.client.call_tool(name, arguments)
        answer = result.structured_content
        # The client checks only what is no error.
        jsonschema.validate(answer, tool.output_schema, cls=jsonschema.Draft202012Validator)
        expect(json.loads(result.content[0].text) == answer, f"{what}: text and structure differ")
        got = "ok" if answer["ok"] else answer["error"]["code"]
        expect(got == call["expect"], f"{what}: {json.dumps(answer)}, not {call['expect']}")
        expect(bool(result.is_error) == (got != "ok"), f"{what}: isError is {result.is_error}")
        if got != "ok":
            expect(len(answer["error"]["message"]) > 10, f"{what}: no help in {answer}")
        for pointer, value in filled(call.get("holds", {}), self.saved).items():
            expect(at(answer, pointer) == value, f"{what}: {pointer} is not {value} in {answer}")
        for saved, pointer in call.get("save", {}).items():
            self.saved[saved] = at(answer, pointer)
        if tool.annotations.read_only_hint or got != "ok":
            expect(size(self.store) == before, f"{what} wrote")
        elif tool.annotations.idempotent_hint:
            after = size(self.store)
            await self.client.call_tool(name, arguments)
            expect(size(self.store) == after, f"{what}, again, wrote again")

    async def calls(self):
        for call in CALLS:
            await self.call(call)
        await self.refused(INVALID_PARAMS, self.client.call_tool("sing", {}), "an unknown tool")
        return len(CALLS)

    async def read(self, uri):
        result = await self.client.read_resource(uri, cache_mode="bypass")
        for content in result.contents:
            expect(content.mime_type, f"{uri} has no type")
            if content.mime_type == "application/json":
                json.loads(content.text)
        expect(result.contents, f"{uri} holds nothing")
        return "".join(content.text for content in result.contents)

    async def resources(self):
        templates = (await self.client.list_resource_templates()).resource_templates
        listed = {template.uri_template for template in templates}
        expect(listed == TEMPLATES, f"templates: {listed ^ TEMPLATES}")
        uris, cursor = [], None
        while True:
            page = await self.client.list_resources(cursor=cursor)
            uris += [str(resource.uri) for resource in page.resources]
            cursor = page.next_cursor
            if cursor is None:
                break
        expect(len(set(uris)) == len(uris), "resources are listed twice")
        thoughts = "decklog://thoughts/relay"
        conversation = "decklog://conversations/9d1c6a52-3b0e-4a83-8f57-2c1f0f5f4a10"
        for uri in (thoughts, conversation):
            expect(uri in uris, f"{uri} is not listed among {uris}")
        for start in ("decklog://days/", "decklog://events/"):
            expect(any(uri.startswith(start) for uri in uris), f"no {start} in {uris}")
        for uri in uris:
            await self.read(uri)
        expect("Find the relay." in await self.read(thoughts), f"what {thoughts} holds")
        expect("northern" in await self.read(conversation), f"what {conversation} holds")
        for uri, code in {
            "decklog://thoughts/no-such-task": NOT_FOUND[self.era],
            "decklog://attic/1": INVALID_PARAMS,
            "file:///etc/passwd": NOT_FOUND[self.era],
        }.items():
            await self.refused(code, self.client.read_resource(uri, cache_mode="bypass"), uri)
        return len(uris)

    async def subscriptions(self):
        """What is recorded is told to who subscribed, and to no one after."""
        uri = "decklog://thoughts/relay"
        thought = {"type": "reflection", "task_id": "relay", "agent_id": "keeper", "content": "!"}
        other = thought | {"task_id": "lens"}
        began = time.monotonic()
        if self.era == "auto":
            async with self.client.listen(resource_subscriptions=[uri]) as subscription:
                await self.client.call_tool("thought_record", other)
                await self.client.call_tool("thought_record", thought)
                with anyio.fail_after(PATIENCE_S):
                    async for event in subscription:
                        expect(str(event.uri) == uri, f"{event} is of another resource")
                        break
        else:
            await self.client.subscribe_resource(uri)
            await self.client.call_tool("thought_record", other)
            await self.client.call_tool("thought_record", thought)
            with anyio.fail_after(PATIENCE_S):
                while not self.updated:
                    await anyio.sleep(0.01)
            await self.client.unsubscribe_resource(uri)
            self.updated = [told for told in self.updated if told != uri]
            expect(not self.updated, f"updates of other resources: {self.updated}")
        return f"{1000 * (time.monotonic() - began):.0f} ms"

    async def prompts(self):
        listed = {prompt.name: prompt for prompt in (await self.client.list_prompts()).prompts}
        expect(listed.keys() == PROMPTS.keys(), f"prompts: {listed.keys() ^ PROMPTS.keys()}")
        for name, arguments in PROMPTS.items():
            known = {argument.name for argument in listed[name].arguments}
            expect(known == arguments.keys(), f"{name} takes {known}")
            prompt = await self.client.get_prompt(name, arguments)
            expect(prompt.messages, f"{name} says nothing")
            if not any(argument.required for argument in listed[name].arguments):
                expect((await self.client.get_prompt(name)).messages, f"{name} says nothing")
        nothing = self.client.get_prompt("what_happened")
        await self.refused(INVALID_PARAMS, nothing, "a prompt without its argument")
        await self.refused(INVALID_PARAMS, self.client.get_prompt("sing"), "an unknown prompt")
        return len(listed)

    async def progress(self):
        """A long call tells how far it is, and ends early when it is cancelled."""
        search = ("log_search", {"text": ABSENT})
        heard = []

        async def hear(progress, total, message):
            heard.append((progress, total))

        began = time.monotonic()
        await self.client.call_tool(*search, progress_callback=hear)
        whole = time.monotonic() - began
        expect(heard, f"no progress in {whole:.2f} s")
        steps = [progress for progress, _ in heard]
        expect(steps == sorted(set(steps)), f"progress goes back: {heard}")
        expect(all(not total or step <= total for step, total in heard), f"beyond the end: {heard}")

        began = time.monotonic()
        with anyio.CancelScope() as scope:

            async def cancel(*_):
                scope.cancel()

            await self.client.call_tool(*search, progress_callback=cancel)
        expect(scope.cancelled_caught, "a call ended before it could be cancelled")
        await self.client.call_tool("thought_record_list", {"limit": 1})
        return f"{len(heard)} steps in {whole:.2f} s, cancelled in {time.monotonic() - began:.2f} s"

    async def run(self):
        async with self.client as client:
            info = client.server_info
            expect(info and info.name == "decklog", f"the server is {info}")
            expect(client.instructions, "the server gives no instructions")
            if self.era == "legacy":
                await client.send_ping()
            print(f"  {client.protocol_version}", flush=True)
            for part in ("tools", "calls", "resources", "subscriptions", "prompts", "progress"):
                print(f"  {part}: {await getattr(self, part)()}", flush=True)


def main():
    warnings.simplefilter("ignore", MCPDeprecationWarning)
    era, store, *server = sys.argv[1:]
    if server[0] == "--":
        server = StdioServerParameters(command=server[1], args=server[2:])
    else:
        server = server[0]
    try:
        anyio.run(Session(era, store, server).run)
    except* Failed as failed:
        while isinstance(failed, BaseExceptionGroup):
            failed = failed.exceptions[0]
        sys.exit(f"FAILED: {failed}")


if __name__ == "__main__":
    main()
