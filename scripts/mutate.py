"""Mutation test: changes the code in one small place at a time and counts the detected mutants.

    scripts/postgres.sh with scripts/mutate.py [--count N] [--seed N] [--minutes N] [--crates A,B]
        [--full]

Mutates conditions, comparisons, boolean literals, increments and calls with unused results, in
equal parts of each crate, and runs the fast tier's tests of the crate and of those that use it most.
With `--full`, those of the full tier try the survivors again: what they detect is what the fast tier
has lost by leaving cases out.
Works on a copy of the tree, so that the repository is not changed, and builds into a separate
folder. Surviving mutants need a manual review: either the mutation has no observable effect, or a
test is missing.
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
# The crates, the folders that are mutated, and the crates whose tests run, the quick ones first.
CRATES = {
    "engine": (["pregel", "channel"], ["conformance", "engine"]),
    "graph": ([""], ["conformance", "graph"]),
    "runtime": ([""], ["runtime", "conformance"]),
    "sqlite": ([""], ["sqlite", "runtime"]),
    "server": ([""], ["server"]),
    "tools": ([""], ["tools", "agents"]),
}
# Longer than the tests of a tier take; also detects a mutant that never terminates.
TEST_SECONDS = {"fast": 600, "full": 3600}
# Hours of kills and compile errors show nothing of a single place.
LEFT_OUT = "not (binary(kill) or binary(chaos) or test(/^ui::/))"

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


def mutants(crate):
    """Returns all mutants of a crate: crate, file, line number, new line, kind."""
    found = []
    for folder in CRATES[crate][0]:
        source = ROOT / "crates" / crate / "src" / folder
        for path in sorted(source.rglob("*.rs")):
            if path.name == "tests.rs" or "tests" in path.relative_to(source).parts:
                continue
            for number, line in enumerate(path.read_text().splitlines()):
                if "#[cfg(test)]" in line:
                    break
                if line.lstrip().startswith(("//", "#[", "use ")):
                    continue
                for pattern, new, kind in SWAPS:
                    for match in re.finditer(pattern, line):
                        changed = line[: match.start()] + match.expand(new) + line[match.end() :]
                        found.append((crate, path.relative_to(ROOT), number, changed, kind))
    return found


def run(command, tree, target, seconds, tier="fast"):
    """Returns whether the command succeeded; one that takes too long is killed and counts as failed."""
    environment = {
        **os.environ,
        "CARGO_TARGET_DIR": str(target),
        "CARGO_PROFILE_DEV_DEBUG": "0",
        "WEFT_TIER": tier,
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


def outcome(crate, tree, target, tier="fast"):
    packages = CRATES[crate][1]
    cargo = [os.environ.get("CARGO", "cargo"), "nextest", "run", "--locked"]
    # With `selection`, libraries have the same features for each crate.
    every = [word for name in packages for word in ("-p", f"weftwork-{name}")] + ["-p", "selection"]
    if not run([*cargo, *every, "--no-run"], tree, target, None):
        return "unbuildable"
    caught = any(
        not run(
            [*cargo, *every, "--fail-fast", "-E", f"package(weftwork-{name}) and {LEFT_OUT}"],
            tree,
            target,
            TEST_SECONDS[tier],
            tier,
        )
        for name in packages
    )
    return "caught" if caught else "survived"


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--count", type=int, default=30)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--minutes", type=float, default=60)
    arguments.add_argument("--full", action="store_true")
    arguments.add_argument("--crates", type=lambda text: text.split(","), default=list(CRATES))
    given = arguments.parse_args()

    chance = random.Random(given.seed)
    every = {crate: mutants(crate) for crate in given.crates}
    part = -(-given.count // len(every))
    parts = [chance.sample(found, min(part, len(found))) for found in every.values()]
    # In turns, so that a run that is cut off has as many of each.
    sample = [mutant for turn in zip(*parts) for mutant in turn][: given.count]
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "mutants"
    end = time.monotonic() + given.minutes * 60
    totals = {"caught": 0, "caught by the full tier": 0, "survived": 0, "unbuildable": 0}
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        tree = Path(folder) / "tree"
        ignored = shutil.ignore_patterns("target", ".git")
        shutil.copytree(ROOT, tree, ignore=ignored, symlinks=True)
        for crate in every:
            if outcome(crate, tree, target) != "survived":
                sys.exit(f"mutate.py: the tests of {crate} must pass before anything is changed")
        for crate, path, number, changed, kind in sample:
            if time.monotonic() > end:
                break
            file = tree / path
            sound = file.read_text()
            lines = sound.splitlines(keepends=True)
            lines[number] = changed + "\n"
            file.write_text("".join(lines))
            result = outcome(crate, tree, target)
            if result == "survived" and given.full:
                if outcome(crate, tree, target, "full") == "caught":
                    result = "caught by the full tier"
            file.write_text(sound)
            totals[result] += 1
            print(f"{result:11} {path}:{number + 1}: {kind}", flush=True)
    tried = sum(totals.values())
    shares = ", ".join(f"{count} {name}" for name, count in totals.items())
    total = sum(len(found) for found in every.values())
    print(f"{tried} of {total} mutants (seed {given.seed}): {shares}")


if __name__ == "__main__":
    main()
