"""The integration suite of LangGraph's Python SDK, unchanged, against the reference server.

The suite is in the source distribution of the SDK. It is kept in `clients/sdk-suite` of the target
folder; `sdk_suite.toml` has its hash, and the tests that fail with the reasons.
"""

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from pathlib import Path
from xml.etree import ElementTree

from harness import Server, report

HERE = Path(__file__).resolve().parent
# Longest time of a test in seconds.
LIMIT = 30
# Maximum number of tests that are tried again.
AGAIN_MAX = 6


def suite(expected):
    """Downloads the suite unless it is there; returns its folder."""
    pins = (HERE / "requirements.txt").read_text().splitlines()
    pin = next(pin for pin in pins if pin.startswith("langgraph-sdk=="))
    folder = Path(os.environ["WEFT_CLIENTS"]).parent / "sdk-suite" / expected["sha256"][:16]
    if (folder / "done").exists():
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    with tempfile.TemporaryDirectory() as place:
        wanted = Path(place) / "suite.txt"
        wanted.write_text(f"{pin} --hash=sha256:{expected['sha256']}\n")
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
        only = ["--no-deps", "--no-binary", ":all:", "--require-hashes", "-r", wanted]
        subprocess.run([*pip, *only, "--dest", place], check=True)
        with tarfile.open(next(Path(place).glob("*.tar.gz"))) as archive:
            archive.extractall(place, filter="data")
        shutil.copytree(next(Path(place).glob("langgraph_sdk-*/")), folder)
    # The installed SDK is tested, and not the one beside the suite.
    shutil.rmtree(folder / "langgraph_sdk")
    (folder / "done").touch()
    return folder


def outcomes(folder, url, tests):
    """Runs tests of the suite; returns the seconds and the problem of each, by name."""
    with tempfile.NamedTemporaryFile(suffix=".xml") as found:
        pytest = [sys.executable, "-m", "pytest", "-q", "-m", "integration", "-p", "no:cacheprovider"]
        options = [f"--timeout={LIMIT}", f"--junitxml={found.name}"]
        env = {**os.environ, "LANGGRAPH_INTEGRATION_URL": url}
        command = [*pytest, *options, *tests]
        subprocess.run(command, cwd=folder, env=env, stdout=sys.stderr)
        cases = ElementTree.parse(found.name).iter("testcase")
        return {name(case): (float(case.get("time")), problem(case)) for case in cases}


def name(case):
    return f"{case.get('classname').split('.')[-1]}::{case.get('name')}"


def problem(case):
    """Why a test failed or was skipped; `None` if it passed."""
    found = next((case.find(kind) for kind in ("failure", "error", "skipped") if case.find(kind) is not None), None)
    return None if found is None else found.get("message") or found.tag


def unexpected(expected, known, why):
    """What is wrong with the outcome of a test; `None` if it was expected."""
    race = expected["races"].get(known)
    if race and why and race["message"] in why:
        return None
    if known in expected["fails"]:
        return None if why else "it passes, and sdk_suite.toml lists it as one that fails"
    return why


def main():
    expected = tomllib.loads((HERE / "sdk_suite.toml").read_text())
    folder = suite(expected)
    tests = [f"--ignore=tests/integration/{name}" for name in expected["left_out"]] + ["tests/integration"]
    with Server(graphs="sdk-suite") as server:
        found = outcomes(folder, server.url, tests)
        # The clients read two connections at once, so that some results depend on the order in which
        # a busy machine delivers them: what is not expected is tried again, alone.
        again = {known: why for known, (_, why) in found.items() if unexpected(expected, known, why)}
        if len(again) > AGAIN_MAX:
            again = {}
        if again:
            found |= outcomes(folder, server.url, [f"tests/integration/{known.replace('::', '.py::')}" for known in again])
    passed = failed = 0
    for known, (seconds, why) in found.items():
        wrong = unexpected(expected, known, why)
        listed = expected["fails"].get(known) or expected["races"].get(known, {}).get("why")
        said = f" fails: {listed}" if why else f" {expected['constants'].get(known, '')}".rstrip()
        if known in again:
            said += f" (tried again alone, after: {again[known].splitlines()[0]})"
        report(f"sdk-suite {known}", wrong, seconds, said)
        passed += wrong is None and why is None
        failed += wrong is not None
    for file, reason in expected["left_out"].items():
        print(f"sdk-suite {file} is left out: {reason}")
    gone = sorted({*expected["fails"], *expected["races"], *expected["constants"]} - set(found))
    if gone or len(found) != expected["tests"]:
        report("sdk-suite has its tests", f"{len(found)} of {expected['tests']}; not found: {gone}", 0)
        failed += 1
    word = "ok" if failed == 0 else "FAILED"
    print(f"test result: {word}. {passed} passed; {failed} failed")
    return 1 if failed else 0
