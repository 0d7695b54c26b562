#!/usr/bin/env python3
"""Compares the tokens and the cost of decklog with those of ccusage, by day and model.

compare.py [--decklog BINARY] [--scratch DIR] AGENT=PATH...

AGENT is one of claude, codex, copilot, gemini, pi and qwen; PATH is a session file, or a directory
of session files. The files are copied to where the agent keeps them, in a new home directory. Then both
programs read these copies. ccusage comes from npm into DIR, or into a temporary directory.
Days are UTC days. Costs are equal if they differ by less than a millionth of a dollar.

Prints each difference. Exits with 1 if there is one.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

VERSION = "20.0.24"
FIELDS = ("input", "cache_write", "cache_read", "output")
# Of each agent: the directory of its files, and the name of a copied file there.
PLACES = {
    "claude": (".claude/projects", "project/{stem}.jsonl"),
    "codex": (".codex/sessions", "2025/01/01/rollout-{stem}.jsonl"),
    "copilot": (".copilot/session-state", "{stem}/events.jsonl"),
    "gemini": (".gemini/tmp", "project/chats/session-{stem}{suffix}"),
    "pi": (".pi/agent/sessions", "project/{stem}.jsonl"),
    "qwen": (".qwen/projects", "project/chats/{stem}.jsonl"),
}


def run(*command, accepted=(0,), **options):
    done = subprocess.run(command, capture_output=True, text=True, **options)
    if done.returncode not in accepted:
        sys.exit(f"{' '.join(map(str, command))}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def installed(scratch):
    """The binary of ccusage, from npm."""
    binary = scratch / "node_modules/.bin/ccusage"
    if not binary.exists():
        scratch.mkdir(parents=True, exist_ok=True)
        run("npm", "install", "--no-fund", "--no-audit", "--prefix", scratch, f"ccusage@{VERSION}")
    found = run(binary, "--version").split()[-1]
    if found != VERSION:
        sys.exit(f"{binary} is ccusage {found}: give a directory for {VERSION}")
    return binary


def placed(agent, path, home):
    """Copies a source to where the agent keeps its files."""
    root, name = PLACES[agent]
    if path.is_dir():
        shutil.copytree(path, home / root, dirs_exist_ok=True)
        return
    suffix = ".json" if path.suffix == ".json" else ".jsonl"
    to = home / root / name.format(stem=path.stem, suffix=suffix)
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, to)


def of_ccusage(binary, agent, environment):
    """Tokens by day and model, and the cost by day and model or, for some agents, by day."""
    text = run(binary, agent, "daily", "--json", "--offline", env=environment)
    tokens, costs = {}, {}
    for day in json.loads(text)["daily"]:
        date = day.get("date") or day["period"]
        if "modelBreakdowns" in day:
            each = [(it["modelName"], it, it.get("cost")) for it in day["modelBreakdowns"]]
        else:
            each = [(name, it, None) for name, it in day["models"].items()]
            costs[date, None] = day.get("costUSD", day.get("totalCost"))
        for model, of, cost in each:
            # Models of pi have a mark.
            model = model.removeprefix("[pi] ")
            # It counts the reasoning of some agents apart from the output.
            tokens[date, model] = {
                "input": of["inputTokens"],
                "cache_write": of.get("cacheCreationTokens", 0),
                "cache_read": of.get("cacheReadTokens", 0),
                "output": of["outputTokens"],
                "reasoning": of.get("reasoningOutputTokens", 0),
            }
            if cost is not None:
                costs[date, model] = cost
    return tokens, costs


def of_decklog(binary, agent, home, environment):
    store = home / f"log-{agent}"
    decklog = [binary, "--store", store]
    # Exit code 1: there were unreadable lines, which ccusage skips too.
    run(*decklog, "import", home / PLACES[agent][0], accepted=(0, 1), env=environment)
    report = json.loads(run(*decklog, "stats", "cost", "--by", "day,model", "--limit", "100000", "--json", env=environment))
    tokens, costs = {}, {}
    unpriced = {it.get("model_used") for it in report["unpriced"]}
    for row in report["rows"]:
        if not row["tokens_in"] and not row["tokens_out"]:
            continue
        # ccusage names the models of Copilot without their provider.
        key = row["bucket"], (row.get("model_used") or "").rpartition("/")[2]
        found = {
            "input": row["tokens_input"],
            "cache_write": row["tokens_cache_write"],
            "cache_read": row["tokens_cache_read"],
            "output": row["tokens_out"],
            "reasoning": row["tokens_reasoning"],
        }
        known = tokens.setdefault(key, dict.fromkeys(found, 0))
        tokens[key] = {name: known[name] + count for name, count in found.items()}
        costs[key] = costs.get(key, 0.0) + row.get("cost_usd", 0.0)
    return tokens, costs, unpriced


def why(own, other):
    """The reason of a difference, where it is a known one."""
    differ = {name for name in FIELDS if own[name] != other[name]}
    if differ == {"input"} and other["input"] - own["input"] == own["cache_read"]:
        return "ccusage counts the tokens read from the cache as input too"
    if differ == {"output"} and own["output"] - other["output"] == own["reasoning"]:
        return "ccusage counts the reasoning apart from the output"
    if differ == {"output"} and other["output"] - own["output"] == own["reasoning"]:
        return "ccusage counts the reasoning twice"
    return None


def is_same(own, other):
    return own is not None and all(own[name] == other[name] for name in FIELDS)


def compare(agent, own, other):
    """Prints how the figures differ. Returns whether they do."""
    (tokens, costs, unpriced), (their_tokens, their_costs) = own, other
    said = []
    for key in sorted(tokens.keys() | their_tokens.keys(), key=str):
        one, two = tokens.get(key), their_tokens.get(key)
        day, model = key
        if one is None or two is None:
            said.append(f"{day} {model}: only in {'decklog' if two is None else 'ccusage'}: {one or two}")
            continue
        differ = [f"{name} {one[name]:,} and {two[name]:,}" for name in FIELDS if one[name] != two[name]]
        if differ:
            said.append(f"{day} {model}: {', '.join(differ)} ({why(one, two) or 'not explained'})")
    for (day, model), cost in sorted(their_costs.items(), key=str):
        mine = sum(usd for (at, name), usd in costs.items() if at == day and model in (None, name))
        if abs(mine - (cost or 0.0)) >= 1e-6:
            of = [key for key in their_tokens if key[0] == day and model in (None, key[1])]
            if any(name in unpriced for _, name in of):
                because = "decklog has no price for the model"
            elif agent == "copilot":
                because = "Copilot records sums of many calls: it is not known which prompts were long"
            elif all(is_same(tokens.get(key), their_tokens[key]) for key in of):
                because = "of the same tokens: the prices differ"
            else:
                because = "of other tokens"
            said.append(f"{day} {model or 'all models'}: cost {mine:.6f} and {cost:.6f} ({because})")
    sums = [sum(it[name] for it in tokens.values()) for name in FIELDS]
    figures = ", ".join(f"{name} {count:,}" for name, count in zip(FIELDS, sums))
    days = len({day for day, _ in tokens})
    print(f"{agent}: {days} days; {figures}; cost {sum(costs.values()):.6f} and {sum(c or 0 for c in their_costs.values()):.6f}")
    for line in said:
        print(f"  {line}")
    print("  equal" if not said else f"  {len(said)} differences: decklog's figure is the first")
    return bool(said)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--decklog", type=Path, default=Path("target/debug/decklog"))
    parser.add_argument("--scratch", type=Path)
    parser.add_argument("sources", nargs="+", metavar="AGENT=PATH")
    args = parser.parse_args()
    sources = {}
    for source in args.sources:
        agent, _, path = source.partition("=")
        if agent not in PLACES or not Path(path).exists():
            parser.error(f"{source}: give one of {', '.join(PLACES)}, = and a path")
        sources.setdefault(agent, []).append(Path(path))
    with tempfile.TemporaryDirectory() as temporary:
        binary = installed((args.scratch or Path(temporary) / "npm").resolve())
        home = Path(temporary) / "home"
        environment = {"HOME": str(home), "TZ": "UTC", "PATH": os.environ["PATH"]}
        differs = False
        for agent, paths in sources.items():
            for path in paths:
                placed(agent, path, home)
            other = of_ccusage(binary, agent, environment)
            own = of_decklog(args.decklog.resolve(), agent, home, environment)
            differs |= compare(agent, own, other)
    sys.exit(differs)


if __name__ == "__main__":
    main()
