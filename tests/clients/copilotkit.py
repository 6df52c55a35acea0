#!/usr/bin/env python3
"""Runs `desk` through CopilotKit's runtime and its agent for LangGraph, and agents that are exposed by AG-UI.

The runtime has 250 packages, so it is installed in a folder of its own, and only for this test, from
versions as they were on a fixed day.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import run
from ag_ui_agents import TOKEN, Agents
from harness import Server

PACKAGES = {"@copilotkit/runtime": "1.75.0", "@ag-ui/client": "0.0.59", "@ag-ui/core": "0.0.59"}
# Newer versions of their dependencies are not considered.
BEFORE = "2026-11-20"


def install(tools: Path) -> Path:
    """Installs the runtime unless it is there; returns its folder."""
    pins = json.dumps({"private": True, "type": "module", "dependencies": PACKAGES})
    digest = hashlib.sha256((pins + BEFORE).encode()).hexdigest()[:16]
    folder = run.TARGET / "clients" / f"copilotkit-{digest}"
    if (folder / "done").exists():
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "package.json").write_text(pins)
    env = {**os.environ, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"}
    npm = [tools / "npm", "install", "--no-audit", "--no-fund", "--no-package-lock", "--silent", f"--before={BEFORE}"]
    subprocess.run(npm, cwd=folder, check=True, env=env)
    (folder / "done").touch()
    return folder


def main() -> int:
    clients = Path(os.environ["WEFT_CLIENTS"])
    folder = install(clients / "venv" / "bin")
    for script in ("copilotkit.mjs", "copilotkit_agents.mjs"):
        shutil.copy(clients / script, folder)
    node = clients / "venv" / "bin" / "node"
    env = {**os.environ, "COPILOTKIT_TELEMETRY_DISABLED": "true", "DO_NOT_TRACK": "1"}
    failed = 0
    with Server() as server:
        done = subprocess.run([node, "copilotkit.mjs", server.url], cwd=folder, timeout=120, env=env)
        failed += done.returncode != 0
    with Agents() as server:
        command = [node, "copilotkit_agents.mjs", server.url, TOKEN]
        done = subprocess.run(command, cwd=folder, timeout=120, env=env)
        failed += done.returncode != 0
    print(f"test result: {'FAILED' if failed else 'ok'}. {2 - failed} passed; {failed} failed")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
