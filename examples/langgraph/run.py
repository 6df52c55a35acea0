#!/usr/bin/env python3
"""Runs programs that are written with LangGraph, and the same programs with Weftwork.

    run.py [NAME...]  installs what is pinned, and runs all programs, or those named; of ours, which
                      `cargo build --examples` makes, the same is expected. It also checks the guide
                      and the lines: ours has at most 1.5 times those of the other.
    run.py --lines    prints the lines of the programs
    run.py --guide    writes the programs into docs/guide/from-langgraph.md

The environment is in `langgraph` of the target folder, and is made again when pins change. The
programs use no network but the loopback, and models that are scripted. The tests in Rust run with
the other tests of the workspace.

A line counts unless it is blank or a comment; imports count, and docstrings are comments. The
scripted model in `scripted.py` does not count: the library for Rust has one.
"""

import ast
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tokenize
import urllib.error
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TARGET = ROOT / os.environ.get("CARGO_TARGET_DIR", "target")
PINS = HERE / "requirements.txt"
SECONDS = 60
GUIDE = ROOT / "docs" / "guide" / "from-langgraph.md"
LINES_RATIO_MAX = 1.5
# Programs with no executable: tests are run by cargo.
WITHOUT_EXECUTABLE = ("tests",)


def install() -> Path:
    """Installs the pinned packages unless they are there; returns the interpreter."""
    digest = hashlib.sha256(PINS.read_bytes()).hexdigest()
    folder = TARGET / "langgraph" / digest[:16]
    python = folder / "bin" / "python"
    if not (folder / "done").exists():
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "-r", PINS], check=True)
        (folder / "done").touch()
    return python


class Programs:
    """Starts programs: files of this folder by an interpreter, or executables of a folder."""

    def __init__(self, python: Path | None, folder: Path, scratch: Path) -> None:
        self.python = python
        self.folder = folder
        self.scratch = scratch
        names = ("LANGSMITH_", "LANGCHAIN_", "LANGGRAPH_")
        self.env = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(names)
        }
        self.env |= {"LANGSMITH_TRACING": "false", "PYTHONDONTWRITEBYTECODE": "1"}

    def command(self, name: str, *args: str) -> list[str]:
        if self.python:
            return [str(self.python), str(self.folder / f"{name}.py"), *args]
        return [str(self.folder / name), *args]

    def says(self, name: str, *args: str) -> str:
        """Runs a program; returns its output."""
        command = self.command(name, *args)
        ran = subprocess.run(
            command,
            cwd=self.scratch,
            env=self.env,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        if ran.returncode != 0:
            raise AssertionError(
                f"{name} ended with {ran.returncode}: {ran.stdout}{ran.stderr}"
            )
        return ran.stdout

    def start(self, name: str, *args: str) -> subprocess.Popen:
        """Starts a program that stays."""
        command = self.command(name, *args)
        return subprocess.Popen(
            command, cwd=self.scratch, env=self.env, stdout=subprocess.PIPE, text=True
        )


def equal(found: object, expected: object) -> None:
    if found != expected:
        raise AssertionError(f"found:    {found!r}\nexpected: {expected!r}")


def check_team_with_policy_and_store(programs: Programs) -> None:
    def team(*args: str) -> str:
        return programs.says("team_with_policy_and_store", "team.db", *args).strip()

    equal(team("say", "where", "Where is order A1?"), "Done: order A1 arrives tomorrow")
    equal(team("say", "small", "Refund 20"), "Done: refunded 20 euros for order A1")
    question = team("say", "large", "Refund 90")
    for part in ("approve", "refund_order", "90", "it moves money"):
        equal(part in question, True)
    # Each command is a process of its own, so that the question has outlived the one that asked.
    equal(team("questions", "large"), question)
    equal(team("approve", "large"), "Done: refunded 90 euros for order A1")
    equal(team("questions", "large"), "Done: refunded 90 euros for order A1")
    team("say", "refused", "Refund 80")
    refused = team("reject", "refused", "too", "much")
    equal("too much" in refused and "refunded 80" not in refused, True)


DOCUMENT = """# Motor
It has 90 horses. They are small.

# Wheels
There are four of them. All are round.

# Brakes
They work. Mostly.
"""

SUMMARY = (
    "Motor: It has 90 horses.\nWheels: There are four of them.\nBrakes: They work.\n"
)


def check_document_pipeline(programs: Programs) -> None:
    (programs.scratch / "car.md").write_text(DOCUMENT)
    equal(
        programs.says("document_pipeline", "car.md", "car.txt"),
        f"3 sections\n{SUMMARY}",
    )
    equal((programs.scratch / "car.txt").read_text(), SUMMARY)


def check_loop_with_condition(programs: Programs) -> None:
    lines = [
        "draft: Rust is fast.",
        "verdict: say that it is safe",
        "draft: Rust is fast and safe.",
        "verdict: say that it is small",
        "draft: Rust is fast, safe and small.",
        "verdict: good",
        "3 rounds: Rust is fast, safe and small.",
    ]
    equal(programs.says("loop_with_condition", "Rust").splitlines(), lines)


def check_own_model(programs: Programs) -> None:
    said = programs.says("own_model", "What is 6 times 7?")
    # The tool call: 5 words read, 1 written; the answer: 6 read, 3 written.
    equal(said.splitlines(), ["[It ][is ][42.]", "15 tokens"])
    equal(
        programs.says("own_model", "Hello").splitlines(),
        ["[I ][only ][multiply.]", "4 tokens"],
    )


def check_own_store(programs: Programs) -> None:
    *suites, last = programs.says("own_store").splitlines()
    equal(last, "4 messages after two runs")
    equal(len(suites) >= 5, True)
    for suite in suites:
        equal(suite.endswith(" passed, 0 failed") and ": 0 passed" not in suite, True)


def check_tests(programs: Programs) -> None:
    config = ["-m", "pytest", "-q", "-c", str(HERE / "pytest.ini"), str(HERE / "tests.py")]
    command = [str(programs.python), *config]
    ran = subprocess.run(
        command, cwd=programs.folder, env=programs.env, capture_output=True, text=True
    )
    equal((ran.returncode, "9 passed" in ran.stdout), (0, True))


class Service:
    """A process of the web service, and a client of it."""

    def __init__(self, programs: Programs) -> None:
        self.process = programs.start("web_service", "service.db")
        assert self.process.stdout
        self.port = int(self.process.stdout.readline())

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def ask(
        self, path: str, body: object = None, headers: dict[str, str] | None = None
    ):
        data = None if body is None else json.dumps(body).encode()
        url = f"http://127.0.0.1:{self.port}/threads/{path}"
        all_headers = {"content-type": "application/json", **(headers or {})}
        request = urllib.request.Request(url, data, all_headers)
        for _ in range(200):
            try:
                return urllib.request.urlopen(request, timeout=SECONDS)
            except urllib.error.HTTPError:
                raise
            except urllib.error.URLError:  # it does not accept connections yet
                time.sleep(0.05)
        raise AssertionError("the service does not answer")

    def questions(self, thread: str) -> list[dict]:
        with self.ask(f"{thread}/questions") as response:
            return json.load(response)

    def events(
        self, thread: str, after: str = "", count: int = 1000
    ) -> list[tuple[str, dict]]:
        """Up to `count` events after an id; the connection is cut then."""
        headers = {"last-event-id": after} if after else {}
        found: list[tuple[str, dict]] = []
        with self.ask(f"{thread}/stream", headers=headers) as response:
            for line in response:
                key, _, value = line.decode().strip().partition(":")
                if key == "id":
                    position = value.strip()
                elif key == "data":
                    found.append((position, json.loads(value)))
                    if len(found) == count:
                        break
        return found


def text_of(events: list[tuple[str, dict]]) -> str:
    return "".join(event.get("text", "") for _, event in events)


def check_web_service(programs: Programs) -> None:
    service = Service(programs)
    try:
        service.ask("a/messages", {"text": "Hello"}).close()
        first = service.events("a", count=1)
        rest = service.events("a", after=first[-1][0])
        equal(text_of(first + rest), "I refund orders, nothing else.")
        equal(rest[-1][1], {"type": "end"})
        equal(text_of(service.events("a")), "I refund orders, nothing else.")

        service.ask("b/messages", {"text": "Refund 90"}).close()
        equal([event["type"] for _, event in service.events("b")], ["question", "end"])
        asked = [{"tool": "refund_order", "args": {"order": "A1", "euros": 90}}]
        equal(service.questions("b"), asked)
    finally:
        service.kill()

    # Another process over the same file has the question.
    service = Service(programs)
    try:
        equal(service.questions("b"), asked)
        service.ask("b/answer", {"approved": True}).close()
        equal(text_of(service.events("b")), "Done: refunded 90 euros for order A1")
        equal(service.questions("b"), [])
        try:
            service.ask("b/answer", {"approved": True}).close()
            raise AssertionError("an answer without a question was accepted")
        except urllib.error.HTTPError as error:
            equal(error.code, 409)
    finally:
        service.kill()


CHECKS = {
    name.removeprefix("check_"): check
    for name, check in sorted(globals().items())
    if name.startswith("check_")
}


def python_lines(file: Path) -> int:
    """Lines with a token that is no comment, without those of docstrings."""
    counted: set[int] = set()
    with tokenize.open(file) as source:
        for token in tokenize.generate_tokens(source.readline):
            if token.string.strip() and token.type != tokenize.COMMENT:
                counted.update(range(token.start[0], token.end[0] + 1))
    owners = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(ast.parse(file.read_text())):
        if (
            isinstance(node, owners)
            and ast.get_docstring(node, clean=False) is not None
        ):
            text = node.body[0]
            counted.difference_update(range(text.lineno, text.end_lineno + 1))
    return len(counted)


def rust_lines(file: Path) -> int:
    """Lines that are not blank and do not begin with `//`."""
    lines = (line.strip() for line in file.read_text().splitlines())
    return sum(bool(line) and not line.startswith("//") for line in lines)


def rows() -> list[tuple[str, int, int]]:
    """Programs that exist in both languages, with their lines."""
    found = [(name, HERE / f"{name}.py", HERE / f"{name}.rs") for name in CHECKS]
    return [
        (name, python_lines(python), rust_lines(rust))
        for name, python, rust in found
        if rust.exists()
    ]


def check_lines() -> None:
    long = [row for row in rows() if row[2] > LINES_RATIO_MAX * row[1]]
    equal(long, [])


def guide_part() -> str:
    """The programs side by side, as the guide has them."""
    parts = ["| program | LangGraph | Weftwork | ratio |", "|---|---|---|---|"]
    for name, python, rust in rows():
        label = name.replace("_", " ")
        parts.append(f"| [{label}](#{name.replace('_', '-')}) | {python} | {rust} | {rust / python:.2f} |")
    for name, _, _ in rows():
        parts += ["", f"### {name.replace('_', ' ').capitalize()}"]
        for language, suffix, by in (("python", "py", "LangGraph"), ("rs", "rs", "Weftwork")):
            text = (HERE / f"{name}.{suffix}").read_text().strip()
            title = f"<summary>{by}: <code>examples/langgraph/{name}.{suffix}</code></summary>"
            parts += ["", f"<details>{title}", "", f"```{language}", text, "```", "", "</details>"]
    return "\n".join(parts)


BEGIN, END = "<!-- programs -->\n", "\n<!-- end of programs -->"


def guide_text() -> str:
    before, rest = GUIDE.read_text().split(BEGIN)
    _, after = rest.split(END)
    return before + BEGIN + guide_part() + END + after


def check_guide() -> None:
    if guide_text() != GUIDE.read_text():
        raise AssertionError("it has other programs; run `examples/langgraph/run.py --guide`")


def main(args: list[str]) -> int:
    if args[:1] == ["--lines"]:
        for name, python, rust in rows():
            print(f"{name:28} {python:5} {rust:5} {rust / python:6.2f}")
        return 0
    if args[:1] == ["--guide"]:
        GUIDE.write_text(guide_text())
        return 0
    python = install()
    failed = []

    def run(title: str, check, *given: object) -> None:
        begun = time.monotonic()
        try:
            check(*given)
            print(f"ok      {title} ({time.monotonic() - begun:.1f} s)")
        except Exception as error:
            failed.append(title)
            print(f"FAILED  {title}: {error}")

    run("the lines", check_lines)
    run("the guide", check_guide)
    for name in args or CHECKS:
        ours = [] if name in WITHOUT_EXECUTABLE else [(None, TARGET / "debug" / "examples")]
        for interpreter, folder in [(python, HERE), *ours]:
            with tempfile.TemporaryDirectory(prefix="langgraph-") as scratch:
                title = f"{name} with {'LangGraph' if interpreter else 'Weftwork'}"
                run(title, CHECKS[name], Programs(interpreter, folder, Path(scratch)))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
