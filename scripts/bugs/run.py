"""Shows that the tests find bugs: injects those of `bugs.toml` into a copy of the tree.

    scripts/bugs/run.py [--only NAME,NAME]

Each bug is a list of edits: a file, its text and the text with the bug. All of them are in one
build; a bug takes effect in a thread that injects it, or in a process with `WEFT_TEST_BUG`. So the
sources have no trace of them, and one build is enough for all. `cargo xtask tidy` checks that each
text is in its file exactly once. The script fails if a bug is not detected by the test it names, and
if that test did not run.
"""

import argparse
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
TREE = ROOT / "target" / "bugs"
# The package `selection` gives all packages the features of a build of the whole workspace, so that
# libraries which do not differ are not compiled once more.
SELECTED = {
    "it": ["-p", "selection", "-p", "weftwork-graph", "-p", "weftwork-conformance"],
    "kill": ["-p", "selection", "-p", "weftwork-cli"],
}


def edited(path, text, edits):
    """Returns the text of a file with its edits."""
    for edit in edits:
        if text.count(edit["old"]) != 1:
            sys.exit(f"bugs: {path} has this text {text.count(edit['old'])} times: {edit['old']}")
        text = text.replace(edit["old"], edit["new"])
    return text


def copy_tree(bugs):
    """Writes the tree with all edits. Files that do not change keep their time, for builds."""
    edits = {}
    for part in [*bugs["bug"], *bugs["support"]]:
        for edit in part["edit"]:
            edits.setdefault(edit["file"], []).append(edit)
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout
    files = {name: ROOT / name for name in listed.decode().split("\0") if name}
    # Cargo reads the configuration of the folders above too, and would pass each flag twice.
    files = {name: path for name, path in files.items() if not name.startswith(".cargo/")}
    files.update({to: ROOT / source for to, source in bugs["files"].items()})
    for name, source in files.items():
        if not source.is_file():
            continue
        content = source.read_bytes()
        if name in edits:
            content = edited(name, content.decode(), edits.pop(name)).encode()
        target = TREE / name
        if not target.is_file() or target.read_bytes() != content:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
            target.chmod(source.stat().st_mode)
    if edits:
        sys.exit(f"bugs: no such files: {', '.join(edits)}")
    for path in TREE.rglob("*.rs"):
        if str(path.relative_to(TREE)) not in files:
            path.unlink()


def write_config():
    """Gives the crates of the copy file names of their own in the target folder.

    Cargo names files by the path from the workspace, its profile and its flags. So the crates of the
    copy would overwrite those of the tree, and a later build would take them for its own. Libraries of
    others keep their names, and are not compiled once more.
    """
    packages = tomllib.loads((TREE / "Cargo.lock").read_text())["package"]
    names = [package["name"] for package in packages if "source" not in package]
    # One unit less than usual.
    profiles = [f"[profile.dev.package.{name}]\ncodegen-units = 255\n" for name in names]
    config = TREE / ".cargo" / "config.toml"
    config.parent.mkdir(exist_ok=True)
    config.write_text("\n".join(profiles))


def detects(target, test, environment):
    """Returns whether a test ran and passed: it passes if it detects the bugs."""
    command = [os.environ.get("CARGO", "cargo"), "test", "--locked", *SELECTED[target]]
    command += ["--test", target, "--", "--nocapture", test]
    folder = os.environ.get("CARGO_TARGET_DIR", ROOT / "target")
    environment = {**os.environ, **environment, "CARGO_TARGET_DIR": str(folder)}
    done = subprocess.run(command, cwd=TREE, env=environment, stdout=subprocess.PIPE, text=True)
    print(done.stdout, flush=True)
    ran = sum(int(count) for count in re.findall(r"test result: ok. (\d+) passed", done.stdout))
    return done.returncode == 0 and ran == 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", help="names of bugs, divided by commas")
    only = parser.parse_args().only
    bugs = tomllib.loads((ROOT / "scripts/bugs/bugs.toml").read_text())
    copy_tree(bugs)
    write_config()
    chosen = [bug for bug in bugs["bug"] if not only or bug["name"] in only.split(",")]
    simulated = [bug for bug in chosen if "seeds" in bug]
    missed = []
    if simulated:
        named = " ".join(f"{bug['name']}:{bug['seeds']}" for bug in simulated)
        if not detects("it", bugs["simulation"], {"WEFT_BUGS": named}):
            missed.append(bugs["simulation"])
    for bug in chosen:
        if "test" in bug:
            target = bug.get("target", "it")
            if not detects(target, bug["test"], {"WEFT_TEST_BUG": bug["name"]}):
                missed.append(bug["name"])
    if missed or not chosen:
        sys.exit(f"bugs: not detected: {', '.join(missed) or only}")
    print(f"bugs: {len(chosen)} detected")


if __name__ == "__main__":
    main()
