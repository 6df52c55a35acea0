"""Measures our engine against its peers: builds a program for each, starts them in turns, checks
their results and what they stored, prints one table and writes `peers.json`.

    python3 bench/peers/run.py [--rounds N] [--seconds S] [--engines A,B] [--cases C,D] [--savers E]

Needs Python 3.11, cargo and, on the first run, the package registries. A peer that cannot be built
is left out and named. The status is 1 if one of our own figures is missing. See docs/benchmarks.md.
"""

import argparse
import contextlib
import datetime
import json
import os
import pathlib
import platform
import shutil
import sqlite3
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target").resolve()
PLACE = TARGET / "peers"
BIN = PLACE / "release"
PYTHON = PLACE / "venv" / "bin" / "python"

# Supersteps of a run: a checkpointer that stores fewer states does less work than required.
CASES = {"seq10": 10, "fan100": 3, "react50": 101, "wide100": 10}
SAVERS = ["none", "memory", "sqlite", "sqlite-full"]
# Not every engine has a setting for the disk syncs of its checkpointer.
OTHERS = ["none", "memory", "sqlite"]
RUNTIMES = ["current", "pool"]
OURS, BOUND = "weftwork", "inline"
PROBE_SECONDS = 0.1
NOTES = """\
`no rows`: not every superstep's state was stored, so the figures in brackets are not comparable.
`sqlite-full` syncs to disk at each commit; `sqlite` does not, and survives a kill of the
process but not always a power failure. `invoke` of juncture uses no checkpointer; in the
column before it the loop is driven by hand, which stores each superstep. `-`: not available.
(*) graph-flow has no supersteps and no reducers, and its memory storage does not copy states: it is not a
superstep peer.
"""
TIMEOUT_SECONDS = 180


class Engine:
    """A program, its checkpointers, and its build."""

    def __init__(self, name, label, command, savers, build, words=()):
        self.name, self.label, self.command = name, label, command
        self.savers, self.build, self.words = savers, build, words


def peer(name, label, package, savers, *words):
    build = lambda: cargo(HERE, "--locked", "-p", package)
    return Engine(name, label, [BIN / package], savers, build, words)


def build_ours():
    """Builds our own programs, members of the root workspace."""
    cargo(ROOT, "--locked", "-p", "peer-weft")


def build_python():
    """Creates the virtual environment with Python's langgraph, once per list of requirements."""
    wanted = HERE / "python" / "requirements.txt"
    done = PLACE / "venv" / "requirements.txt"
    if done.exists() and done.read_text() == wanted.read_text():
        return
    shutil.rmtree(PLACE / "venv", ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", PLACE / "venv"], check=True)
    subprocess.run([PYTHON, "-m", "pip", "install", "--quiet", "-r", wanted], check=True)
    shutil.copyfile(wanted, done)


ENGINES = [
    Engine(OURS, "weftwork", [BIN / "peer-weft"], SAVERS, build_ours),
    Engine(BOUND, "inline", [BIN / "peer-inline"], ["none"], build_ours),
    peer("juncture", "juncture 0.4.0", "peer-juncture", OTHERS),
    peer("juncture-invoke", "juncture, invoke", "peer-juncture", ["memory", "sqlite"], "invoke"),
    peer("adk-graph", "adk-graph 2.3.0", "peer-adk-graph", OTHERS),
    peer("langgraph", "langgraph 0.2.5 (crate)", "peer-langgraph", OTHERS),
    peer("rusty-agent-runtime", "rusty-agent-runtime 0.12.0", "peer-rusty", ["none", "memory"]),
    peer("graph-flow", "graph-flow 0.8.1 (*)", "peer-graph-flow", ["none", "memory"]),
    Engine(
        "langgraph-python",
        "langgraph 1.2.22 (Python)",
        [PYTHON, HERE / "python" / "peer.py"],
        SAVERS,
        build_python,
    ),
]


def cargo(folder, *words):
    environment = {**os.environ, "CARGO_TARGET_DIR": str(PLACE)}
    command = [os.environ.get("CARGO", "cargo"), "build", "--release", "--quiet", *words]
    subprocess.run(command, cwd=folder, env=environment, check=True)


def built(engines):
    """Builds the engines; returns those that could be built and reports the others."""
    ready, known = [], {}
    for engine in engines:
        say(f"building {engine.label}")
        # Two engines may share a program, and two programs a build.
        key = "ours" if engine.build is build_ours else engine.command[0]
        if key not in known:
            try:
                engine.build()
                known[key] = True
            except (subprocess.CalledProcessError, OSError) as error:
                known[key] = False
                say(f"left out: {engine.label} could not be built: {error}")
        if known[key]:
            ready.append(engine)
    return ready


def say(text):
    print(text, file=sys.stderr, flush=True)


class Refused(Exception):
    """A failed measurement."""


def measure(engine, case, saver, runtime, seconds):
    """Runs a program once; returns its figures with the number of rows in its file."""
    file = PLACE / "data" / "bench.db"
    for path in file.parent.glob("bench.db*"):
        path.unlink()
    if saver.startswith("sqlite"):
        with contextlib.closing(sqlite3.connect(file)) as database:
            database.execute("PRAGMA journal_mode = WAL").fetchall()
    command = [*engine.command, case, saver, runtime, str(seconds), file, *engine.words]
    environment = {**os.environ, "LANGSMITH_TRACING": "false", "RUST_BACKTRACE": "0"}
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=TIMEOUT_SECONDS
        )
    except subprocess.TimeoutExpired as error:
        raise Refused(f"took more than {TIMEOUT_SECONDS} s") from error
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise Refused(last[:200])
    found = json.loads(done.stdout)
    if saver.startswith("sqlite"):
        found["stored_per_run"] = rows(file) / found["runs"]
    return found


def rows(file):
    """The number of rows in all tables of a file."""
    with contextlib.closing(sqlite3.connect(file)) as database:
        tables = database.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
        count = lambda name: database.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0]
        return sum(count(name) for (name,) in tables)


class Cell:
    """All measurements of one engine in one case with one checkpointer."""

    def __init__(self, engine, case, saver):
        self.engine, self.case, self.saver = engine, case, saver
        self.runtime, self.refused, self.found = None, None, []

    def probe(self):
        """Selects the faster runtime for the engine."""
        best = {}
        for runtime in RUNTIMES:
            try:
                found = measure(self.engine, self.case, self.saver, runtime, PROBE_SECONDS)
                best[runtime] = found["cpu_us_per_task"]
            except Refused as error:
                self.refused = str(error)
        if best:
            self.runtime, self.refused = min(best, key=best.get), None

    def round(self, seconds):
        if self.refused is None:
            try:
                self.found.append(
                    measure(self.engine, self.case, self.saver, self.runtime, seconds)
                )
            except Refused as error:
                self.refused = str(error)

    def median(self, key):
        return statistics.median(found[key] for found in self.found)

    def ratio(self, other):
        """The ratio of the CPU times of this cell and another: the median over the rounds."""
        key = "cpu_us_per_task"
        pairs = zip(self.found, other.found)
        return statistics.median(mine[key] / its[key] for mine, its in pairs)

    def is_durable(self):
        """Returns whether each superstep's state was stored, or true if the checkpointer does not report it."""
        if self.saver == "none":
            return True
        stored = self.found[-1]["stored_per_run"]
        return stored is None or stored >= CASES[self.case]


def measured(engines, cases, savers, rounds, seconds):
    """Measures all cells in turns; returns them by engine, case and checkpointer."""
    cells = [
        Cell(engine, case, saver)
        for case in cases
        for saver in savers
        for engine in engines
        if saver in engine.savers
    ]
    for cell in cells:
        say(f"trying {cell.case} {cell.saver} {cell.engine.label}")
        cell.probe()
        if cell.refused:
            say(f"  refused: {cell.refused}")
    for number in range(rounds):
        say(f"round {number + 1} of {rounds}")
        # Each round starts with a different cell.
        first = number * len(cells) // rounds
        for cell in cells[first:] + cells[:first]:
            cell.round(seconds)
    return {(cell.engine.name, cell.case, cell.saver): cell for cell in cells}


def missing(cells, chosen):
    """Names the figures of our own that were asked for and not measured."""
    return [
        f"{engine.label}: {case} {saver}: {cell.refused if cell else 'not built'}"
        for engine in ENGINES
        if engine.name in chosen.engines and engine.name in (OURS, BOUND)
        for case in chosen.cases
        for saver in chosen.savers
        if saver in engine.savers
        for cell in [cells.get((engine.name, case, saver))]
        if cell is None or cell.refused is not None or not cell.found or not cell.is_durable()
    ]


def short(value):
    """Formats a number with three significant digits."""
    if value >= 99.95:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"


def shown(cell, ours, bound):
    """Formats a cell: the ratio, then the CPU and wall time."""
    if cell is None:
        return "-"
    if cell.refused is not None or not cell.found:
        return "fails"
    times = f"{short(cell.median('cpu_us_per_task'))} / {short(cell.median('wall_us_per_task'))}"
    if not cell.is_durable():
        return f"no rows ({times})"
    if cell is ours:
        over = f"{short(cell.ratio(bound))} x bound, " if bound and bound.found else ""
        return f"{over}{times}"
    if ours is None or not ours.found:
        return times
    return f"{short(cell.ratio(ours))} x, {times}"


def table(cells, engines, cases, savers):
    """Formats the table as Markdown with aligned columns."""
    lines = [["case", "saver", *(engine.label for engine in engines)]]
    for case in cases:
        for saver in savers:
            ours = cells.get((OURS, case, saver))
            bound = cells.get((BOUND, case, "none"))
            found = [cells.get((engine.name, case, saver)) for engine in engines]
            lines.append([case, saver, *(shown(cell, ours, bound) for cell in found)])
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    lines.insert(1, ["-" * width for width in widths])
    pad = lambda line: " | ".join(text.ljust(width) for text, width in zip(line, widths))
    return "\n".join(f"| {pad(line)} |" for line in lines)


def records(cells):
    """The valid cells as JSON records."""
    found = []
    for (name, case, saver), cell in cells.items():
        if cell.refused is not None or not cell.found or not cell.is_durable():
            continue
        bound = cells.get((BOUND, case, "none"))
        found.append(
            {
                "case": case,
                "saver": saver,
                "engine": name,
                "cpu_us_per_task": cell.median("cpu_us_per_task"),
                "wall_us_per_task": cell.median("wall_us_per_task"),
                "bound_ratio": cell.ratio(bound) if bound and bound.found else None,
            }
        )
    return found


def machine():
    """The name of the processor and the number of cores."""
    with contextlib.suppress(OSError):
        for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return f"{line.split(':', 1)[1].strip()}, {os.cpu_count()} cores"
    return f"{platform.machine()}, {os.cpu_count()} cores"


def arguments():
    names = [engine.name for engine in ENGINES]
    listed = lambda text: text.split(",")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.3, help="duration of each measurement, after warm-up")
    parser.add_argument("--engines", type=listed, default=names, help=", ".join(names))
    parser.add_argument("--cases", type=listed, default=list(CASES))
    parser.add_argument("--savers", type=listed, default=SAVERS)
    return parser.parse_args()


def main():
    chosen = arguments()
    engines = built([engine for engine in ENGINES if engine.name in chosen.engines])
    (PLACE / "data").mkdir(parents=True, exist_ok=True)
    cells = measured(engines, chosen.cases, chosen.savers, chosen.rounds, chosen.seconds)
    today = datetime.date.today().isoformat()
    text = (
        f"Each cell: how many times the CPU time of weftwork, then CPU / wall in microseconds a "
        f"task; medians of {chosen.rounds} rounds. {machine()}, {today}.\n\n"
        f"{table(cells, engines, chosen.cases, chosen.savers)}\n\n"
        f"{NOTES}"
    )
    print(text)
    place = TARGET / "bench"
    place.mkdir(parents=True, exist_ok=True)
    (place / "peers.json").write_text(json.dumps(records(cells), indent=2) + "\n")
    (place / "peers.md").write_text(text)
    gaps = missing(cells, chosen)
    for gap in gaps:
        say(f"missing: {gap}")
    return 1 if gaps else 0


sys.exit(main())
