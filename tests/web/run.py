#!/usr/bin/env python3
"""Runs the tests of the page in Debian's Chromium against `weft serve`.

    run.py [WORD...]     all tests, or those whose names contain one of the words
    run.py --shots DIR   screenshots of each view in place of tests

The pinned tools are in `web` of the target folder. WEFT_SHOTS names a folder for screenshots, and
WEFT_PAGE one with a built page, such as `web/dist`, that is tested in place of the one of the program.
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


def install() -> Path:
    """Installs the pinned tools unless they are there; returns their folder."""
    digest = hashlib.sha256((HERE / "package.json").read_bytes()).hexdigest()
    folder = TARGET / "web" / digest[:16]
    if not (folder / "done").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        shutil.copy(HERE / "package.json", folder)
        npm = ["npm", "install", "--no-audit", "--no-fund", "--no-package-lock", "--silent"]
        subprocess.run(npm, cwd=folder, check=True)
        (folder / "done").touch()
    return folder


def main() -> int:
    weft = Path(os.environ.get("WEFT", TARGET / "debug" / "weft"))
    program = TARGET / "debug" / "examples" / "reference_server"
    program = Path(os.environ.get("WEFT_REFERENCE_SERVER", program))
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    takes_shots = sys.argv[1:2] == ["--shots"]
    needs = (
        (weft.exists(), weft, "cargo build -p weftwork-cli"),
        (program.exists(), program, "cargo build -p weftwork-server --example reference_server"),
        (chromium, "Chromium", "scripts/bootstrap.sh"),
    )
    for found, need, fix in needs:
        if not found:
            print(f"the tests need {need}; run: {fix}")
            return 2
    folder = install()
    # Modules of Node are found from the folder of the file that imports them.
    files = [HERE / "tools_server.py", ROOT / "docs/guide/clock_server.py", ROOT / "tests/damages.json"]
    for script in [*HERE.glob("*.mjs"), *files]:
        shutil.copy(script, folder)
    env = {**os.environ, "WEFT": str(weft), "WEFT_REFERENCE_SERVER": str(program), "CHROMIUM": chromium}
    if takes_shots:
        command = ["shots.mjs", Path(sys.argv[2]).resolve()]
    else:
        command = ["suite.mjs", *sys.argv[1:]]
    return subprocess.run(["node", folder / command[0], *command[1:]], env=env).returncode


if __name__ == "__main__":
    sys.exit(main())
