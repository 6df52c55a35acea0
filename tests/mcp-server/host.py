#!/usr/bin/env python3
"""The client that the conformance package runs: lists, allows and calls the tools of a server by `weft mcp`."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from world import WEFT

VALUES = {"string": "text", "number": 5, "integer": 5, "boolean": True, "array": [], "object": {}}


def arguments_of(tool):
    """Arguments that its schema requires."""
    schema = tool["input_schema"]
    return {name: VALUES[schema["properties"][name]["type"]] for name in schema.get("required", [])}


def main():
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    calls = []
    for call in context.get("toolCalls", []):
        # A null is no boolean by the schema, and is left out.
        given = {name: value for name, value in call["arguments"].items() if value is not None}
        calls.append((call["name"], given))
    with tempfile.TemporaryDirectory(prefix="mcp-host-") as folder:
        home = Path(folder)
        (home / "mcp.json").write_text(json.dumps({"mcpServers": {"web": {"url": sys.argv[-1]}}}))
        (home / "weft.toml").write_text('[egress]\nallow = ["localhost", "127.0.0.1"]\n')
        env = {"HOME": folder, "PATH": os.environ["PATH"], "WEFT_STORE": "memory", "WEFT_MODEL": "scripted"}

        def weft(*args, stdin=None):
            command = [WEFT, "--mcp", "mcp.json", "mcp", *args]
            done = subprocess.run(command, cwd=home, env=env, input=stdin, capture_output=True, text=True)
            print(args, done.returncode, done.stdout, done.stderr, file=sys.stderr)
            return done.returncode == 0, done.stdout

        listed, output = weft("tools", "--json")
        tools = [json.loads(line) for line in output.splitlines()]
        tools = {tool["tool"].split("/", 1)[1]: tool for tool in tools if "input_schema" in tool}
        calls = calls or [(name, arguments_of(tool)) for name, tool in tools.items()]
        names = [f"web/{name}" for name in tools]
        done = listed and (not names or weft("allow", *names, "--effect", "read-only", "--shown", ".")[0])
        lines = "".join(json.dumps({"tool": f"web/{name}", "args": args}) + "\n" for name, args in calls)
        return 0 if done and (not calls or weft("call", "-", stdin=lines)[0]) else 1


if __name__ == "__main__":
    sys.exit(main())
