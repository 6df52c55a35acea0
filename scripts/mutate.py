"""Mutation test: changes the engine in one small place at a time and counts the detected mutants.

    mutate.py [--count N] [--seed N] [--minutes N]

Mutates conditions, comparisons, boolean literals, increments and calls with unused results in
the engine's supersteps and channels. Works on a copy of the tree, so that the repository is not
changed, and builds into a separate folder. Surviving mutants need a manual review: either the
mutation has no observable effect, or a scenario is missing.
"""

import argparse
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ["crates/engine/src/pregel", "crates/engine/src/channel"]
# Longer than the tests take; also detects a mutant that never terminates.
TEST_SECONDS = 240
TESTS = ["typed::", "kit::hand_written", "kit::generated"]

SWAPS = [
    (r"\bif (?!let\b)(.+) \{$", r"if !(\1) {", "negated condition"),
    (r" < ", " <= ", "< to <="),
    (r" <= ", " < ", "<= to <"),
    (r" > ", " >= ", "> to >="),
    (r" == ", " != ", "== to !="),
    (r" != ", " == ", "!= to =="),
    (r" && ", " || ", "&& to ||"),
    (r" \|\| ", " && ", "|| to &&"),
    (r"\btrue\b", "false", "true to false"),
    (r"\bfalse\b", "true", "false to true"),
    (r" \+ 1\b", " - 1", "+ 1 to - 1"),
    (r" - 1\b", " + 1", "- 1 to + 1"),
    (r"^(\s+)(?:self|[a-z_.]+)\.[a-z_]+\(.*\)\??;$", r"\1", "dropped call"),
    (r"^(\s+)\*?[a-z_.]+ = .+;$", r"\1", "dropped assignment"),
]


def mutants():
    """Returns all mutants: file, line number, new line, kind."""
    found = []
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.rs")):
            if path.name == "tests.rs":
                continue
            for number, line in enumerate(path.read_text().splitlines()):
                if "#[cfg(test)]" in line:
                    break
                if line.lstrip().startswith(("//", "#[", "use ")):
                    continue
                for pattern, new, kind in SWAPS:
                    for match in re.finditer(pattern, line):
                        changed = line[: match.start()] + match.expand(new) + line[match.end() :]
                        found.append((path.relative_to(ROOT), number, changed, kind))
    return found


def run(command, tree, target, seconds):
    """Returns whether the command succeeded; one that takes too long is killed and counts as failed."""
    environment = {
        **os.environ,
        "CARGO_TARGET_DIR": str(target),
        "CARGO_PROFILE_DEV_DEBUG": "0",
        "RUST_BACKTRACE": "0",
    }
    child = subprocess.Popen(
        command,
        cwd=tree,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return child.wait(seconds) == 0
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        return False


def outcome(tree, target):
    cargo = [os.environ.get("CARGO", "cargo"), "test", "--locked", "-p", "weftwork-conformance"]
    if not run([*cargo, "--test", "it", "--no-run"], tree, target, None):
        return "unbuildable"
    # The quick ones first.
    caught = any(
        not run([*cargo, "--test", "it", tests], tree, target, TEST_SECONDS) for tests in TESTS
    )
    return "caught" if caught else "survived"


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--count", type=int, default=30)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--minutes", type=float, default=60)
    given = arguments.parse_args()

    every = mutants()
    sample = random.Random(given.seed).sample(every, min(given.count, len(every)))
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "mutants"
    end = time.monotonic() + given.minutes * 60
    totals = {"caught": 0, "survived": 0, "unbuildable": 0}
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        tree = Path(folder) / "tree"
        ignored = shutil.ignore_patterns("target", ".git")
        shutil.copytree(ROOT, tree, ignore=ignored, symlinks=True)
        if outcome(tree, target) != "survived":
            sys.exit("mutate.py: the kit must pass before anything is changed")
        for path, number, changed, kind in sample:
            if time.monotonic() > end:
                break
            file = tree / path
            sound = file.read_text()
            lines = sound.splitlines(keepends=True)
            lines[number] = changed + "\n"
            file.write_text("".join(lines))
            result = outcome(tree, target)
            file.write_text(sound)
            totals[result] += 1
            print(f"{result:11} {path}:{number + 1}: {kind}", flush=True)
    tried = sum(totals.values())
    shares = ", ".join(f"{count} {name}" for name, count in totals.items())
    print(f"{tried} of {len(every)} mutants (seed {given.seed}): {shares}")


if __name__ == "__main__":
    main()
