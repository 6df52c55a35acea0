#!/usr/bin/env python3
"""Compares the reference server, over a SQLite file, with `langgraph dev` in one session.

    run.py [SECONDS]    seconds per figure, 8 if they are not given; results in target/bench/server.json
    run.py --words      the age of words when clients receive them, alone

WEFT_REFERENCE_SERVER names another build of the reference server.
"""

import asyncio
import hashlib
import json
import os
import shutil
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import words

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TARGET = ROOT / os.environ.get("CARGO_TARGET_DIR", "target")
BODY = {"assistant_id": "echo", "input": {"msg": "hello"}}
READERS = 1000
# Runs of which the commits are counted: few enough for one log of SQLite.
RUNS = 20
TICK = os.sysconf("SC_CLK_TCK")


def install():
    """Installs `langgraph dev` unless it is there; returns its folder."""
    digest = hashlib.sha256((HERE / "requirements.txt").read_bytes()).hexdigest()
    folder = TARGET / "bench" / "server" / digest[:16]
    if not (folder / "done").exists():
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        pip = [folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "-r", HERE / "requirements.txt"], check=True)
        (folder / "done").touch()
    return folder


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def fsync_ms():
    """Median time of a small write with fsync, in the folder of the store."""
    times = []
    with tempfile.NamedTemporaryFile(dir=TARGET) as file:
        for _ in range(200):
            begin = time.perf_counter()
            file.write(b"x" * 4096)
            file.flush()
            os.fsync(file.fileno())
            times.append((time.perf_counter() - begin) * 1000)
    return statistics.median(times)


class Process:
    """A server with its children."""

    def __init__(self, command, port, **more):
        self.port, self.log = port, tempfile.TemporaryFile()
        begin = time.perf_counter()
        self.popen = subprocess.Popen(command, stdout=self.log, stderr=self.log, **more)
        while True:
            try:
                with socket.create_connection(("127.0.0.1", port), 1) as found:
                    found.sendall(b"GET /ok HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                    if b" 200 " in found.recv(64):
                        break
            except OSError:
                pass
            if self.popen.poll() is not None or time.perf_counter() - begin > 120:
                self.log.seek(0)
                raise RuntimeError(self.log.read().decode()[-2000:])
            time.sleep(0.002)
        self.start_ms = (time.perf_counter() - begin) * 1000

    def pids(self):
        """The server's process and its descendants."""
        parents = {}
        for entry in Path("/proc").glob("[0-9]*/stat"):
            try:
                text = entry.read_text()
            except OSError:
                continue
            parents[int(entry.parent.name)] = int(text.rsplit(")", 1)[1].split()[1])
        family = [self.popen.pid]
        for pid in family:
            family.extend(child for child, parent in parents.items() if parent == pid)
        return family

    def cpu_ms(self):
        total = 0
        for pid in self.pids():
            fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
            total += int(fields[11]) + int(fields[12])
        return total * 1000 / TICK

    def memory(self):
        """Resident memory in bytes."""
        total = 0
        for pid in self.pids():
            for line in Path(f"/proc/{pid}/status").read_text().splitlines():
                total += int(line.split()[1]) << 10 if line.startswith("VmRSS:") else 0
        return total

    def stop(self):
        self.popen.terminate()
        try:
            self.popen.wait(30)
        except subprocess.TimeoutExpired:
            self.popen.kill()


async def answer(reader):
    """Reads a response; returns its status and body."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    status = int(head.split(b" ", 2)[1])
    if b"transfer-encoding: chunked" not in head:
        length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
        return status, await reader.readexactly(length)
    body = b""
    while size := int(await reader.readline(), 16):
        body += await reader.readexactly(size)
        await reader.readexactly(2)
    await reader.readexactly(2)
    return status, body


async def load(process, at_once, seconds):
    """Runs `echo` by /runs/wait; returns runs per second, median and CPU per run in milliseconds."""
    times, end = [], time.perf_counter() + seconds

    async def client():
        reader, writer = await asyncio.open_connection("127.0.0.1", process.port)
        while time.perf_counter() < end:
            begin = time.perf_counter()
            writer.write(words.request("POST", "/runs/wait", BODY))
            status, body = await answer(reader)
            if status != 200 or json.loads(body).get("out") != "echo:hello":
                raise RuntimeError(f"status {status}: {body[:200]!r}")
            times.append((time.perf_counter() - begin) * 1000)
        writer.close()

    cpu, begin = process.cpu_ms(), time.perf_counter()
    await asyncio.gather(*(client() for _ in range(at_once)))
    took = time.perf_counter() - begin
    times.sort()
    return {
        "runs_per_s": len(times) / took,
        "p50_ms": times[len(times) // 2],
        "p99_ms": times[len(times) * 99 // 100],
        "cpu_ms_per_run": (process.cpu_ms() - cpu) / len(times),
    }


def commits(store):
    """Number of commits in the log that SQLite writes ahead, which are marked by a size."""
    data = Path(f"{store}-wal").read_bytes()
    page, salt, count = struct.unpack(">I", data[8:12])[0], data[16:24], 0
    for at in range(32, len(data) - 23, 24 + page):
        count += data[at + 8 : at + 16] == salt and data[at + 4 : at + 8] != bytes(4)
    return count


def example(process):
    """What the example of the README prints against a server."""
    python = install() / "bin" / "python"
    command = [python, ROOT / "examples" / "langgraph_client.py", f"http://127.0.0.1:{process.port}"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


async def slow_readers(process):
    """Memory per client that begins a stream of a run and reads nothing of it, in bytes."""
    body = {"assistant_id": "slow", "input": {"steps": 3, "delay": 20}}
    before, writers = process.memory(), []
    for _ in range(READERS):
        reader, writer = await asyncio.open_connection("127.0.0.1", process.port, limit=1024)
        writer.write(words.request("POST", "/runs/stream", body))
        await reader.readuntil(b"\r\n\r\n")
        writers.append(writer)
    await asyncio.sleep(2)
    used = (process.memory() - before) / READERS
    for writer in writers:
        writer.transport.abort()
    return used


def reference_server(folder):
    """Starts the reference server, or the one that WEFT_REFERENCE_SERVER names, over a store in a folder."""
    server = os.environ.get("WEFT_REFERENCE_SERVER", TARGET / "release" / "examples" / "reference_server")
    port = free_port()
    return Process([server, "--listen", f"127.0.0.1:{port}", "--store", f"sqlite:{folder}/bench.db"], port)


async def ours(seconds):
    with tempfile.TemporaryDirectory(dir=TARGET) as folder:
        process = reference_server(folder)
        port = process.port
        try:
            await asyncio.sleep(1)
            found = {"start_ms": process.start_ms, "idle_bytes": process.memory()}
            found["example"] = example(process)
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            before = commits(f"{folder}/bench.db")
            for _ in range(RUNS):
                writer.write(words.request("POST", "/runs/wait", BODY))
                await answer(reader)
            found["commits_per_run"] = (commits(f"{folder}/bench.db") - before) / RUNS
            await load(process, 1, 1)
            found["fsync_p50_ms"] = fsync_ms()
            found["one"] = await load(process, 1, seconds)
            found["fsync_p50_ms_after"] = fsync_ms()
            found["many"] = await load(process, 64, seconds)
            found["loaded_bytes"] = process.memory()
            # Before the words, whose streams leave memory that later ones use.
            found["bytes_per_slow_reader"] = await slow_readers(process)
            found["words"] = await words.measure(port)
        finally:
            process.stop()
    return found


async def theirs(seconds):
    folder, port = install(), free_port()
    # As many runs at once as it executes, instead of its usual one.
    command = [
        folder / "bin" / "langgraph", "dev", "--no-browser", "--no-reload", "--host", "127.0.0.1",
        "--port", str(port), "--n-jobs-per-worker", "10",
    ]
    env = {**os.environ, "LANGSMITH_TRACING": "false", "LANGGRAPH_CLI_NO_ANALYTICS": "1"}
    with tempfile.TemporaryDirectory() as place:
        for name in ("graphs.py", "langgraph.json"):
            shutil.copy(HERE / name, place)
        process = Process(command, port, cwd=place, env=env)
        try:
            await asyncio.sleep(1)
            found = {"start_ms": process.start_ms, "idle_bytes": process.memory()}
            found["example"] = example(process)
            await load(process, 1, 2)
            found["one"] = await load(process, 1, seconds)
            found["many"] = await load(process, 64, seconds)
            found["loaded_bytes"] = process.memory()
        finally:
            process.stop()
    return found


async def word_ages():
    """Measures the ages of words alone, and prints them."""
    with tempfile.TemporaryDirectory(dir=TARGET) as folder:
        process = reference_server(folder)
        try:
            for format_, age in (await words.measure(process.port)).items():
                print("{:20} {words} words, p50 {p50_ms:.2f} ms, p99 {p99_ms:.2f} ms".format(format_, **age))
        finally:
            process.stop()


async def main():
    if sys.argv[1:] == ["--words"]:
        return await word_ages()
    seconds = float(sys.argv[1]) if sys.argv[1:] else 8
    load_before = os.getloadavg()
    found = {"weft": await ours(seconds), "langgraph dev": await theirs(seconds)}
    weft, peer = found["weft"], found["langgraph dev"]
    if weft["example"] != peer["example"]:
        raise RuntimeError("the example differs: {example!r}".format(**weft) + " and {example!r}".format(**peer))
    fsync = max(weft["fsync_p50_ms"], weft["fsync_p50_ms_after"])
    bars = {
        "CPU per run <= 1/10": weft["many"]["cpu_ms_per_run"] <= peer["many"]["cpu_ms_per_run"] / 10,
        "runs/s at 64 >= 10 times": weft["many"]["runs_per_s"] >= 10 * peer["many"]["runs_per_s"],
        "p50 at 1 <= 1.5 ms + 5 fsync": weft["one"]["p50_ms"] <= 1.5 + 5 * fsync,
        "commits per run <= 4": weft["commits_per_run"] <= 4,
        "idle memory <= 30 MB": weft["idle_bytes"] <= 30e6,
        "start to /ok <= 100 ms": weft["start_ms"] <= 100,
        "word in each format <= 20 ms (p99)": all(age["p99_ms"] <= 20 for age in weft["words"].values()),
        "slow reader <= 64 KiB": weft["bytes_per_slow_reader"] <= 64 << 10,
    }
    result = {"load": [load_before, os.getloadavg()], "cores": os.cpu_count(), **found, "bars": bars}
    path = TARGET / "bench" / "server.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    asyncio.run(main())
