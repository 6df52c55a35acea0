#!/usr/bin/env python3
"""Sends the trace of a run to Phoenix, and reads the same tree back from its API.

Phoenix is installed below the target folder in the version that this file pins, and starts on a free
port of 127.0.0.1. Needs `weft` in WEFT_TARGET_DIR.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
TARGET = ROOT / os.environ.get("CARGO_TARGET_DIR", "target")
WEFT = Path(os.environ.get("WEFT_TARGET_DIR", TARGET)) / "debug" / "weft"
PACKAGES = ["arize-phoenix==20.26.1"]
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SPAN = "00f067aa0ba902b7"
START_SECONDS = 120
SPANS_SECONDS = 60
# The run: a model asks for a tool, which runs, and then answers.
TREE = """\
client request UNKNOWN
  invoke_agent builtin:desk AGENT
    superstep 1 CHAIN
      task model CHAIN
        chat rules LLM
    superstep 2 CHAIN
      task tool CHAIN
        execute_tool multiply TOOL
    superstep 3 CHAIN
      task model CHAIN
        chat rules LLM"""


def install():
    """Installs the pinned packages unless they are there; returns the folder of their programs."""
    digest = hashlib.sha256(str(PACKAGES).encode()).hexdigest()
    folder = TARGET / "phoenix" / digest[:16]
    if not (folder / "done").exists():
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        pip = [folder / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *PACKAGES], check=True)
        (folder / "done").touch()
    return folder / "bin"


class Service:
    """A program that prints its address."""

    def __init__(self, command, place, address, **env):
        self.log = []
        self.url = None
        self.found = threading.Event()
        env = {"PATH": os.environ["PATH"], "HOME": str(place), "PYTHONUNBUFFERED": "1", **env}
        self.settings = env
        self.process = subprocess.Popen(
            command, cwd=place, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.reader = threading.Thread(target=self.read, args=(re.compile(address),), daemon=True)
        self.reader.start()
        self.found.wait(START_SECONDS)
        assert self.url, f"{command[0]} did not start: {''.join(self.log[-20:])}"

    def read(self, address):
        for line in self.process.stdout:
            self.log.append(line)
            match = address.search(line)
            if match and not self.url:
                self.url = match[1]
                self.found.set()
        self.found.set()

    def stop(self):
        """Ends the program as a signal does, and waits for it."""
        self.process.terminate()
        try:
            self.process.wait(30)
        finally:
            self.process.kill()
            self.reader.join()
            self.process.stdout.close()

    def ask(self, path, body=None, **headers):
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"content-type": "application/json", **headers})
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                return json.loads(response.read())
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{path}: {error.code} {error.read()[:500]}") from error


def start_phoenix(programs, place):
    address = r"Uvicorn running on (http://127\.0\.0\.1:\d+)"
    settings = {
        "PHOENIX_HOST": "127.0.0.1", "PHOENIX_PORT": "0", "PHOENIX_GRPC_PORT": "0",
        "PHOENIX_WORKING_DIR": str(place / "phoenix"), "PHOENIX_TELEMETRY_ENABLED": "false",
    }
    return Service([programs / "phoenix", "serve"], place, address, **settings)


def start_weft(place, phoenix, **env):
    command = [WEFT, "serve", "--no-auth", "--listen", "127.0.0.1:0"]
    settings = {
        "WEFT_MODEL": "scripted", "WEFT_STORE": f"sqlite:{place}/weft.db",
        "OTEL_EXPORTER_OTLP_ENDPOINT": phoenix.url, "OTEL_METRICS_EXPORTER": "none",
    }
    return Service(command, place, r"listening on (http://127\.0\.0\.1:\d+)", **settings, **env)


def add_client(phoenix):
    """Stores the span of the client, as its own tracing would."""
    span = {
        "name": "client request", "context": {"trace_id": TRACE, "span_id": SPAN}, "span_kind": "UNKNOWN",
        "start_time": "2026-01-01T00:00:00+00:00", "end_time": "2026-01-01T00:00:01+00:00", "status_code": "OK",
    }
    phoenix.ask("/v1/projects/default/spans", {"data": [span]})


def spans_of(phoenix, count):
    """The spans of the trace, once there are this many."""
    end = time.monotonic() + SPANS_SECONDS
    while True:
        found = phoenix.ask("/v1/projects/default/spans?limit=1000")["data"]
        if len(found) >= count or time.monotonic() > end:
            return found
        time.sleep(0.2)


def draw(spans, parent=None, depth=0):
    within = sorted((span for span in spans if span["parent_id"] == parent), key=lambda span: span["start_time"])
    lines = []
    for span in within:
        lines.append(f"{'  ' * depth}{span['name']} {span['span_kind']}")
        lines += draw(spans, span["context"]["span_id"], depth + 1)
    return lines


def check(phoenix, weft, place):
    add_client(phoenix)
    text = "What is 17 * 3?"
    body = {
        "assistant_id": "desk", "if_not_exists": "create",
        "input": {"messages": [{"role": "user", "content": text}]},
    }
    answer = weft.ask("/threads/phoenix/runs/wait", body, traceparent=f"00-{TRACE}-{SPAN}-01")
    assert "51" in json.dumps(answer), answer
    # What waits is sent at the end.
    weft.stop()
    spans = spans_of(phoenix, TREE.count("\n") + 1)
    assert {span["context"]["trace_id"] for span in spans} == {TRACE}, spans
    tree = "\n".join(draw(spans))
    assert tree == TREE, f"expected:\n{TREE}\nfound:\n{tree}\n{''.join(weft.log)}"
    attempts = [span["attributes"] for span in spans if span["span_kind"] == "LLM"]
    for attributes in attempts:
        assert attributes["llm.model_name"] == "rules", attributes
        assert attributes["llm.token_count.total"] > 0, attributes
    sessions = {span["attributes"].get("session.id") for span in spans if span["name"] != "client request"}
    assert sessions == {"phoenix"}, sessions
    assert text not in json.dumps(spans), spans
    # A command that does not stay sends its trace before it ends.
    settings = {**weft.settings, "WEFT_STORE": f"sqlite:{place}/command.db"}
    command = [WEFT, "run", "desk", "--input", text]
    done = subprocess.run(command, cwd=place, env=settings, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    both = spans_of(phoenix, len(spans) + len(spans) - 1)
    other = [span for span in both if span["context"]["trace_id"] != TRACE]
    expected = "\n".join(line[2:] for line in TREE.splitlines()[1:])
    assert "\n".join(draw(other)) == expected, draw(other)
    return len(both)


def main():
    if not WEFT.exists():
        print(f"no program {WEFT}; build it: cargo build -p weftwork-cli --bin weft")
        return 2
    programs = install()
    begin = time.monotonic()
    problem = None
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder).resolve()
        phoenix = start_phoenix(programs, place)
        try:
            count = check(phoenix, start_weft(place, phoenix), place)
        except Exception:
            problem = traceback.format_exc()
        phoenix.stop()
    seconds = time.monotonic() - begin
    name = "phoenix_has_the_tree_of_a_run"
    print(f"        {'FAIL' if problem else 'PASS'} [{seconds:8.3f}s] {name}")
    if problem:
        print(f"phoenix '{name}' panicked at:", problem, sep="\n  ")
    else:
        print(f"phoenix: {count} spans")
    print(f"test result: {'FAILED' if problem else 'ok'}. {int(not problem)} passed; {int(bool(problem))} failed")
    return 1 if problem else 0


if __name__ == "__main__":
    sys.exit(main())
