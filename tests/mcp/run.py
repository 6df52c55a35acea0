#!/usr/bin/env python3
"""Compares `weft mcp` with the reference client over published and generated MCP servers.

    run.py [NAME...]   all servers of the tier (WEFT_TIER, `fast` unless it is `full`), or those named

Both list the same tools, and calls that succeed for the reference client succeed here, or the tool is
refused with a reason. The servers are installed below the target folder, with the versions that
`servers.json` and this file name, and need neither keys nor a network. Needs `weft` in WEFT_TARGET_DIR.
"""

import concurrent.futures
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TARGET = ROOT / os.environ.get("CARGO_TARGET_DIR", "target")
WEFT = Path(os.environ.get("WEFT_TARGET_DIR", TARGET)) / "debug" / "weft"
IS_FULL = os.environ.get("WEFT_TIER") == "full"
PYTHON = {
    "python": ["mcp==2.3.0", "mcp-server-time==2026.10.19", "mcp-server-git==2026.10.19"],
    "python-mcp1": ["mcp==1.30.0", "mcp-server-sqlite==2025.4.25", "mcp-server-calculator==0.2.1"],
}
PYTHON_FULL = {
    "python-mcp1": [
        "duckduckgo-mcp-server==0.6.1", "excel-mcp-server==0.1.8", "mcp-text-editor==1.0.2",
        "arxiv-mcp-server==0.8.2",
    ],
    # Other packages replace parts of the frameworks that these use.
    "python-wikipedia": ["wikipedia-mcp==2.0.1"],
    "python-word": ["office-word-mcp-server==1.1.11"],
}
# Arguments of tools of the odd server that its schemas require; the other tools are called without any.
REQUIRED = {"schema_44": {"a": "x"}}
ZOD = ["@modelcontextprotocol/sdk@1.32.2", "zod@4.6.7"]


def install(folder, servers):
    """Installs what is missing, each package in a place of its own: their dependencies differ."""
    needs = {f"npm/{name}": [server["npm"]] for name, server in servers.items() if "npm" in server}
    needs["npm/zod"] = ZOD
    for place, packages in needs.items():
        place = folder / place
        if (place / "done").exists():
            continue
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        npm = ["npm", "install", "--prefix", place, "--no-audit", "--no-fund", "--ignore-scripts", "--silent"]
        subprocess.run([*npm, *packages], check=True)
        (place / "done").touch()
    full = PYTHON_FULL if IS_FULL else {}
    for venv in sorted(PYTHON.keys() | full.keys()):
        packages = PYTHON.get(venv, []) + full.get(venv, [])
        mark = folder / venv / "-".join(["done", hashlib.sha256(str(packages).encode()).hexdigest()[:16]])
        if mark.exists():
            continue
        subprocess.run([sys.executable, "-m", "venv", folder / venv], check=True)
        pip = folder / venv / "bin" / "pip"
        for package in packages:
            subprocess.run([pip, "install", "--quiet", "--disable-pip-version-check", package, packages[0]], check=True)
        mark.touch()


def program(folder, name, server, work):
    """The entry of a server, with its calls."""
    def placed(value):
        return json.loads(json.dumps(value).replace("WORK", str(work)))

    if "npm" in server:
        package = server["npm"].rsplit("@", 1)[0]
        command = ["node", str(folder / "npm" / name / "node_modules" / package / server["bin"])]
    elif "pip" in server:
        command = [str(folder / server["pip"] / "bin" / server["bin"])]
    else:
        command = server["command"]
    env = {key: os.environ[key] for key in ("PATH", "HOME") if key in os.environ}
    return {
        "command": command[0], "args": [*command[1:], *placed(server.get("args", []))],
        "env": {**env, **placed(server.get("env", {}))}, "cwd": str(work),
        "calls": placed(server.get("calls")), "required": server.get("required", {}),
    }


def weft(work, *args, stdin=""):
    env = {"PATH": os.environ["PATH"], "HOME": str(work), "WEFT_MCP": str(work / "mcp.json")}
    return subprocess.run(
        [WEFT, *args], cwd=work, env=env, input=stdin, capture_output=True, text=True, timeout=600
    )


def timed(name, entry, reference):
    """Returns the differences of one server, the number of calls that were compared, and the seconds."""
    begin = time.monotonic()
    problems, calls = compare(name, entry, reference)
    return problems, calls, time.monotonic() - begin


def compare(name, entry, reference):
    """Returns the differences of one server, and the number of calls that were compared."""
    work = Path(entry["cwd"])
    if "error" in reference and name.startswith("odd-"):
        # One of the tools that it does not read.
        return [], 0
    if "error" in reference:
        return [f"the reference client cannot use it: {reference['error'][:300]}"], 0
    members = {member: entry[member] for member in ("command", "args", "env", "cwd")}
    (work / "mcp.json").write_text(json.dumps({"mcpServers": {"s": {**members, "timeout": 60000}}}))
    listed = weft(work, "mcp", "tools", "--json")
    found, refused, problems = set(), {}, []
    for line in listed.stdout.splitlines():
        tool = json.loads(line)
        short = tool["tool"].split("/", 1)[1]
        if "refused" in tool:
            refused[short] = tool["refused"]["message"]
        else:
            found.add(short)
    missing = [tool for tool in reference["tools"] if tool not in found and tool not in refused]
    if missing or not listed.stdout:
        problems.append(f"not listed: {missing} {listed.stderr[-300:]}")
    for tool, reason in refused.items():
        print(f"  {name}: refused {tool[:60]}: {reason[:160]}")
    calls = entry["calls"]
    if calls is None:
        calls = [[tool, entry["required"].get(tool, {})] for tool in reference["tools"]]
    tools = sorted({f"s/{call[0]}" for call in calls if call[0] in found})
    while tools:
        allowed = weft(work, "mcp", "allow", *tools, "--effect", "read-only", "--shown", ".")
        if allowed.returncode == 0:
            break
        # All are allowed or none: the others go on without the one that has the name of another.
        same_name = re.match(r"error\[W0910\]: tool `(.*)` of .* has the same name", allowed.stderr)
        if not same_name or same_name[1] not in tools:
            problems.append(f"not allowed: {allowed.stderr[-300:]}")
            break
        print(f"  {name}: not allowed {allowed.stderr[:200].splitlines()[0]}")
        tools.remove(same_name[1])
    wanted = [(call, outcome) for call, outcome in zip(calls, reference["calls"]) if f"s/{call[0]}" in tools]
    asked = "".join(json.dumps({"tool": f"s/{tool}", "args": args}) + "\n" for (tool, args), _ in wanted)
    made = weft(work, "mcp", "call", "-", stdin=asked) if wanted else None
    lines = made.stdout.split("\n")[:-1] if made else []
    if len(lines) != len(wanted):
        problems.append(f"{len(wanted)} calls, {len(lines)} outcomes: {made.stderr[-300:]}")
    for ((tool, _), (outcome, text)), line in zip(wanted, lines):
        is_done = "value" in json.loads(line)
        if (outcome == "ok") and not is_done or (outcome == "error") and is_done:
            problems.append(f"call of {tool}: {outcome} {text[:100]!r}, here {line[:300]}")
    return problems, len(wanted)


def main():
    folder = TARGET / "mcp-stage"
    folder.mkdir(parents=True, exist_ok=True)
    if not WEFT.exists():
        print(f"no program {WEFT}; build it: cargo build -p weftwork-cli --bin weft")
        return 2
    servers = json.loads((HERE / "servers.json").read_text())
    servers = {name: one for name, one in servers.items() if IS_FULL or one["tier"] == "fast"}
    if sys.argv[1:]:
        servers = {name: one for name, one in servers.items() if name in sys.argv[1:]}
    install(folder, servers)
    shutil.copy(HERE / "zod_server.mjs", folder / "npm" / "zod")
    python = str(folder / "python" / "bin" / "python")
    own = {
        "zod": {"command": ["node", str(folder / "npm" / "zod" / "zod_server.mjs")]},
        "typed": {"command": [python, str(HERE / "typed_server.py")]},
        "odd": {"command": [sys.executable, str(HERE / "odd_server.py")], "env": {"ODD": "readable"}, "required": REQUIRED},
    }
    if IS_FULL:
        count = int(subprocess.check_output([sys.executable, HERE / "odd_server.py", "--count"]))
        for number in range(count):
            own[f"odd-{number}"] = {**own["odd"], "env": {"ODD": str(number)}}
    servers |= {name: one for name, one in own.items() if not sys.argv[1:] or name in sys.argv[1:]}
    with tempfile.TemporaryDirectory() as place:
        entries = {}
        for name, server in servers.items():
            work = Path(place) / name
            work.mkdir()
            subprocess.run(["git", "init", "--quiet", work], check=True)
            entries[name] = program(folder, name, server, work)
        asked = json.dumps(list(entries.values()))
        done = subprocess.run([python, HERE / "reference.py"], input=asked, capture_output=True, text=True)
        references = dict(zip(entries, json.loads(done.stdout)))
        failed = 0
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            results = {name: pool.submit(timed, name, entry, references[name]) for name, entry in entries.items()}
            for name, result in results.items():
                problems, calls, seconds = result.result()
                failed += bool(problems)
                tools = len(references[name].get("tools", []))
                print(f"        {'FAIL' if problems else 'PASS'} [{seconds:8.3f}s] {name} ({tools} tools, {calls} calls)")
                if problems:
                    print(f"mcp '{name}' panicked at:", *problems, sep="\n  ")
    print(f"test result: {'FAILED' if failed else 'ok'}. {len(entries) - failed} passed; {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
