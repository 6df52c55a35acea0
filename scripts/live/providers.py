"""Runs the order desk on each provider whose key is in the environment.

    python3 scripts/live/providers.py WEFT

Each provider answers one request that takes a tool call, with its cheapest model of
`crates/models/prices.toml`, or the one that WEFT_TEST_LIVE_MODEL_<PROVIDER> names, such as
WEFT_TEST_LIVE_MODEL_GROQ. A run must complete, call the tool `lookup_order` once with the order that
was asked about, and answer with its status; its two model calls are paid. A provider without a key
or without a model is skipped by name. Prints a table, and exits with 1 if a provider failed.
"""

import json
import os
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
REQUEST = "Where is order A1001?"


def read(name):
    with open(ROOT / "crates/models" / name, "rb") as file:
        return tomllib.load(file)


def cheapest(prices, provider):
    """The model of a provider that costs least; none if the table has no price of its models."""
    rows = [row for row in prices["price"] if provider in row["providers"]]
    models = [model for row in rows for model in row["models"]]
    models.sort(key=lambda model: model["input"] + model["output"])
    return models[0]["name"] if models else None


def weft(binary, home, *args):
    """The exit code and the output of a command, with a store and a configuration of its own."""
    command = [binary, "--store", f"sqlite:{home}/live.db", *args]
    own = {**os.environ, "HOME": home, "XDG_CONFIG_HOME": home}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=own)
    return done.returncode, done.stdout, done.stderr


def failure(binary, model):
    """What went wrong in a run of the desk; none if nothing did."""
    with tempfile.TemporaryDirectory() as home:
        run = ["--model", model, "run", "desk", "--thread", "t", "--input", REQUEST]
        code, _, errors = weft(binary, home, *run, "--deadline", "2m", "--budget", "calls=4")
        if code != 0:
            lines = [line for line in errors.splitlines() if "W0" in line]
            return " ".join(lines) or f"exit code {code}: {errors.strip()}"
        _, state, _ = weft(binary, home, "threads", "state", "t")
        messages = json.loads(state)["messages"]
        parts = [part for message in messages for part in message["parts"]]
        calls = [part for part in parts if part["type"] == "tool_call"]
        if [(call["name"], call["args"]) for call in calls] != [
            ("lookup_order", {"order_id": "A1001"})
        ]:
            return f"calls {[(call['name'], call['args']) for call in calls]}"
        answer = "".join(part.get("text", "") for part in messages[-1]["parts"])
        return None if "Friday" in answer else f"answered {answer!r}"


def main():
    binary = sys.argv[1]
    prices = read("prices.toml")
    failed = False
    print("| provider | result |\n|---|---|")
    for name, row in sorted(read("providers.toml").items()):
        key = row.get("key_env")
        if not key or row.get("key_optional"):
            continue
        variable = "WEFT_TEST_LIVE_MODEL_" + name.upper().replace("-", "_")
        model = os.environ.get(variable) or cheapest(prices, name)
        if not os.environ.get(key):
            result = f"skipped: {key} is not set"
        elif model is None:
            result = f"skipped: no model is known; name one by {variable}"
        else:
            problem = failure(binary, f"{name}:{model}")
            failed = failed or problem is not None
            result = f"{model}: " + ("passed" if problem is None else f"FAILED: {problem}")
        print(f"| {name} | {result} |", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
