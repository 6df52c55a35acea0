#!/usr/bin/env python3
"""Installs pinned clients and runs their tests against the reference server.

    run.py [NAME...]          the tests of LangGraph's clients, or those whose names contain one of
                              the words
    run.py --chat [NAME...]   the tests of front ends of chats
    run.py --sdk-suite        the integration suite of LangGraph's Python SDK, unchanged
    run.py --agent-chat       LangGraph's agent-chat-ui in Chromium
    run.py --copilotkit       CopilotKit's runtime with its agent for LangGraph, and with agents that are
                              exposed by AG-UI
    run.py --install          installs the clients only, and prints their folder

The clients are in `clients` of the target folder, and are installed again when their pins change.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TARGET = ROOT / os.environ.get("CARGO_TARGET_DIR", "target")
PINS = ("requirements.txt", "package.json")


def install() -> Path:
    """Installs the pinned clients unless they are there; returns their folder."""
    digest = hashlib.sha256(b"".join((HERE / name).read_bytes() for name in PINS)).hexdigest()
    folder = TARGET / "clients" / digest[:16]
    if (folder / "done").exists():
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    tools = folder / "venv" / "bin"
    pip = [tools / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "-r", HERE / "requirements.txt"], check=True)
    shutil.copy(HERE / "package.json", folder)
    npm = [tools / "npm", "install", "--no-audit", "--no-fund", "--no-package-lock", "--silent"]
    path = f"{tools}{os.pathsep}{os.environ['PATH']}"
    subprocess.run(npm, cwd=folder, check=True, env={**os.environ, "PATH": path})
    (folder / "done").touch()
    return folder


def main() -> int:
    folder = install()
    if sys.argv[1:] == ["--install"]:
        print(folder)
        return 0
    # Modules of Node are found from the folder of the file that imports them.
    for script in HERE.glob("*.mjs"):
        shutil.copy(script, folder)
    server = TARGET / "debug" / "examples" / "reference_server"
    server = Path(os.environ.get("WEFT_REFERENCE_SERVER", server))
    if not server.exists():
        print(f"no server at {server}; build it: cargo build -p weftwork-server --example reference_server")
        return 2
    weft = os.environ.get("WEFT", str(TARGET / "debug" / "weft"))
    env = {**os.environ, "WEFT_REFERENCE_SERVER": str(server), "WEFT_CLIENTS": str(folder), "WEFT": weft}
    for name in ("LANGSMITH_API_KEY", "LANGGRAPH_API_KEY", "LANGCHAIN_API_KEY"):
        env.pop(name, None)
    env["LANGSMITH_TRACING"] = "false"
    own = {"--agent-chat": "agent_chat.py", "--copilotkit": "copilotkit.py"}
    tests = own.get(" ".join(sys.argv[1:]), "suite.py")
    command = [folder / "venv" / "bin" / "python", HERE / tests, *sys.argv[1:]]
    return subprocess.run(command, env=env).returncode


if __name__ == "__main__":
    sys.exit(main())
