#!/usr/bin/env python3
"""Asks agents that are exposed by A2A with the SDKs of the protocol, and servers of an SDK by external
agents.

    run.py [WORD...]    all tests, or those whose names contain one of the words
    run.py --kit PORT   an agent for the compatibility kit, until it is stopped

The SDKs for Python and JavaScript are installed below the target folder in the versions that this file
pins. Needs `weft` in WEFT_TARGET_DIR, and Node.
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
NODE_PACKAGES = ["@a2a-js/sdk@1.3.0"]
PACKAGES = ["a2a-sdk[http-server,signing]==1.3.0", "mcp==2.3.0", "uvicorn==0.54.0"]


def install():
    """Installs the pinned packages unless they are there; returns their folder."""
    digest = hashlib.sha256(str([PACKAGES, NODE_PACKAGES]).encode()).hexdigest()
    folder = TARGET / "a2a" / digest[:16]
    if not (folder / "done").exists():
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        pip = [folder / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *PACKAGES], check=True)
        npm = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", folder]
        subprocess.run([*npm, *NODE_PACKAGES], check=True)
        (folder / "done").touch()
    shutil.copy(HERE / "sdk.mjs", folder)
    return folder


if __name__ == "__main__":
    words = sys.argv[1:]
    programs = [[name, *words] for name in ["sdk.py", "external.py", "seed.py"]]
    if words[:1] == ["--kit"]:
        programs = [["kit.py", *words[1:]]]
    folder = install()
    env = {**os.environ, "WEFT_A2A_NODE": str(folder)}
    run = lambda program: subprocess.run([folder / "bin" / "python", "-B", *program], cwd=HERE, env=env)
    sys.exit(max(run(program).returncode for program in programs))
