#!/usr/bin/env python3
"""Chats with `desk` in LangGraph's agent-chat-ui, as its package for npm has it, in Chromium.

The page is built outside the tree, from the pinned package and from dependencies as they were on a
fixed day. This edition shows approvals and has no buttons for their newer form, so the test answers
by the route of the server.
"""

import base64
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import run
from harness import Server

PACKAGE = "create-agent-chat-app@0.1.6"
INTEGRITY = "sha512-FmiAY3/1QHsScsfMRAtQBS9ljKvMDlG0yzgYhYiOgacSzO4cF755zJ4i/xCIpyaG/nnuW0HeAIOZgIgSVrfOEQ=="
# Newer versions of its dependencies are not considered.
BEFORE = "2026-11-01"


def build(tools: Path) -> Path:
    """Builds the page unless it is there; returns the folder of its files."""
    folder = run.TARGET / "clients" / f"agent-chat-{hashlib.sha256((INTEGRITY + BEFORE).encode()).hexdigest()[:16]}"
    files = folder / "app" / "dist"
    if files.exists():
        return files
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    env = {**os.environ, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"}
    subprocess.run([tools / "npm", "pack", "--silent", PACKAGE], cwd=folder, check=True, env=env, stdout=subprocess.DEVNULL)
    (archive,) = folder.glob("*.tgz")
    found = "sha512-" + base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
    if found != INTEGRITY:
        raise SystemExit(f"{PACKAGE} has the integrity {found}; expected {INTEGRITY}")
    with tarfile.open(archive) as package:
        package.extractall(folder, filter="data")
    app = folder / "app"
    shutil.copytree(folder / "package" / "templates" / "vite", app)
    npm = [tools / "npm", "install", "--no-audit", "--no-fund", "--silent", "--legacy-peer-deps", f"--before={BEFORE}"]
    subprocess.run(npm, cwd=app, check=True, env=env)
    subprocess.run([tools / "node", app / "node_modules" / "vite" / "bin" / "vite.js", "build", "--logLevel=error"], cwd=app, check=True, env=env)
    return files


def main() -> int:
    clients = Path(os.environ["WEFT_CLIENTS"])
    files = build(clients / "venv" / "bin")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    assert chromium, "no Chromium; scripts/bootstrap.sh installs it"
    node = [clients / "venv" / "bin" / "node", "agent_chat.mjs"]
    with Server() as server:
        done = subprocess.run([*node, server.url, files, chromium], cwd=clients, timeout=300)
    word = "ok" if done.returncode == 0 else "FAILED"
    print(f"test result: {word}. {int(done.returncode == 0)} passed; {int(done.returncode != 0)} failed")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
