#!/usr/bin/env python3
"""Calls agents that are exposed by MCP with clients that others wrote.

    run.py [WORD...]    all tests, or those whose names contain one of the words

The Python SDK in both of its modes, the command line of the Inspector, and the conformance package. They
are installed below the target folder in the versions that this file and `package.json` pin. Needs `weft`
in WEFT_TARGET_DIR.
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
PACKAGES = ["mcp==2.3.0"]


def install():
    """Installs the pinned packages unless they are there; returns their folder."""
    pinned = str(PACKAGES).encode() + (HERE / "package.json").read_bytes()
    folder = TARGET / "mcp-server" / hashlib.sha256(pinned).hexdigest()[:16]
    if not (folder / "done").exists():
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        pip = [folder / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *PACKAGES], check=True)
        shutil.copy(HERE / "package.json", folder)
        # The engine that a package asks for is installed with it.
        npm = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts"]
        subprocess.run(npm, cwd=folder, check=True)
        (folder / "done").touch()
    return folder


if __name__ == "__main__":
    folder = install()
    env = {**os.environ, "WEFT_MCP_NODE": str(folder / "node_modules")}
    done = subprocess.run([folder / "bin" / "python", "-B", "clients.py", *sys.argv[1:]], cwd=HERE, env=env)
    sys.exit(done.returncode)
