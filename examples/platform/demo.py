#!/usr/bin/env python3
"""The demo of agents that ask other agents: `demo.py`, after `cargo build -p weftwork-cli --bin weft`.

The agent `weekly-report` asks `sql-analyst` for numbers, a person for an approval, and `order-desk` for an
order, over a database in a file. The report is approved, rejected, killed with SIGKILL between the order and
the report, and rolled back to its order. Each line with a check mark was checked at that moment; the last lines compare what the database,
the records and the journal have, and the status is 1 if they differ. WEFT_MODEL is the model, `scripted` by
default.
"""

import contextlib
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TARGET = ROOT / os.environ.get("CARGO_TARGET_DIR", "target")
WEFT = Path(os.environ.get("WEFT", TARGET / "debug" / "weft"))
AGENTS = ["weekly-report", "sql-analyst", "order-desk"]
READS = ["sqlite/list_tables", "sqlite/describe_table", "sqlite/read_query"]
CHANGES = ["orders/place_order", "orders/decline_order", "orders/cancel_order"]
BOXES = 3
# The approval of the checkpoint is that of the order.
RULES = 'version = 1\n\n[[rules]]\ntool = "orders/*"\ndecision = "allow"\n'
PATIENCE_S = 60
WAITS = 3


class Failed(Exception):
    """A claim that does not hold."""


def claim(holds, text):
    if not holds:
        raise Failed(text)
    print(f"✓ {text}")


class Shop:
    """A folder with the database, the agents, their servers, and the store."""

    def __init__(self, folder):
        self.folder = folder
        self.database = folder / "shop.db"
        self.hold = folder / "shop.hold"
        with contextlib.closing(sqlite3.connect(self.database)) as database, database:
            database.execute("CREATE TABLE orders (customer TEXT, euros INTEGER)")
            rows = [("Ada", 25), ("Ada", 70), ("Grace", 10), ("Grace", 30)]
            database.executemany("INSERT INTO orders VALUES (?, ?)", rows)
        for slug in AGENTS:
            shutil.copytree(ROOT / "agents" / slug, folder / "agents" / slug)
        server = {
            kind: {"command": sys.executable, "args": [str(HERE / "shop_server.py"), kind, str(self.database)]}
            for kind in ["sqlite", "orders"]
        }
        (folder / "mcp.json").write_text(json.dumps({"mcpServers": server}))
        (folder / "rules.toml").write_text(RULES)
        kept = ["PATH", "LANG", "WEFT_MODEL_FILE", "WEFT_MODEL_URL"]
        self.env = {
            **{name: os.environ[name] for name in kept if name in os.environ},
            "HOME": str(folder),
            "XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache")),
            "WEFT_MODEL": os.environ.get("WEFT_MODEL", "scripted"),
            "WEFT_STORE": f"sqlite:{folder / 'weft.db'}",
            "WEFT_AGENTS": str(folder / "agents"),
            "WEFT_MCP": str(folder / "mcp.json"),
            "WEFT_POLICY": str(folder / "rules.toml"),
        }
        self.weft("mcp", "allow", *READS, "--effect", "read-only", "--shown", ".")
        self.weft("mcp", "allow", *CHANGES, "--effect", "external-side-effect", "--shown", ".")

    def start(self, *args):
        command = [str(WEFT), *args]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, cwd=self.folder, env=self.env, stdout=pipe, stderr=pipe, text=True)

    def weft(self, *args, statuses=(0,)):
        process = self.start(*args)
        out, errors = process.communicate(timeout=300)
        if process.returncode not in statuses:
            raise Failed(f"weft {' '.join(args)} ended with {process.returncode}: {out}{errors}")
        return out, errors

    def lines(self, *args):
        out, _ = self.weft(*args)
        return [json.loads(line) for line in out.splitlines()]

    def thread(self, conversation):
        out, _ = self.weft("conversations", "show", conversation)
        return json.loads(out)["conversation"]["thread"]

    # What the three places have, each read on its own.

    def in_database(self, conversation):
        """Orders of a conversation in the file, which this program reads itself."""
        with contextlib.closing(sqlite3.connect(self.database)) as database:
            if not database.execute("SELECT 1 FROM sqlite_master WHERE name = 'supplies'").fetchone():
                return []
            found = database.execute("SELECT status, boxes FROM supplies WHERE reference = ? ORDER BY rowid", [conversation])
            return found.fetchall()

    def in_records(self, conversation):
        """Deliverables of the order desk in a conversation."""
        out, _ = self.weft("conversations", "export", conversation)
        versions = [version for made in json.loads(out)["deliverables"] for version in made["versions"]]
        contents = [version["content"] for version in versions if version.get("agent") == "order-desk"]
        found = [content if isinstance(content, dict) else json.loads(content) for content in contents]
        return [(content["status"], content["boxes"]) for content in found]

    def in_journal(self, conversation):
        """Calls that change something, with their results, in the journal of a conversation."""
        calls = self.lines("threads", "journal", self.thread(conversation), "--json")
        return [call for call in calls if call["name"] in CHANGES]


def request(conversation, payload, **more):
    args = ["agents", "run", "weekly-report", "--conversation", conversation, "--payload", json.dumps(payload)]
    for flag, value in more.items():
        args += [f"--{flag}", value]
    return args


def report(shop, conversation):
    """Begins a report, which stops at its checkpoint. Returns the id of the approval."""
    print(f"$ weft agents run weekly-report --conversation '{conversation}' --payload '{{\"orchestrate\": true}}' ...")
    given = json.dumps({"reference": conversation, "boxes": BOXES})
    begin = request(conversation, {"orchestrate": True}, input=given)
    _, errors = shop.weft(*begin, "Report the week.", statuses=(WAITS,))
    print("".join(f"  │ {line}\n" for line in errors.splitlines() if line.startswith("step ")), end="")
    thread = shop.thread(conversation)
    [waiting] = [one for one in shop.lines("approvals", "list", "--json") if one["thread"] == thread]
    claim(shop.in_database(conversation) == [], "nothing is ordered before a person agrees")
    asked = waiting["request"]
    print(f"  {asked['reason']}\n  {asked['tool']} {json.dumps(asked['args'])}")
    return waiting["question"]


def decision(shop, approval, verdict):
    return {"orchestrationAction": "human-response", "approvalId": approval, "decision": verdict}


def steps(answer):
    return {step["id"]: step["status"] for step in answer["metadata"]["steps"]}


def decide(shop, conversation, approval, verdict):
    """Answers an approval, and returns the statuses of the steps."""
    print(f"$ weft agents run weekly-report ... human-response: {verdict}")
    out, _ = shop.weft(*request(conversation, decision(shop, approval, verdict)), "--json")
    return steps(json.loads(out))


def approved(shop, conversation):
    found = decide(shop, conversation, report(shop, conversation), "approve")
    claim(found["order"] == "done" and found["decline"] == "not_reached", "the order is made")
    return [("ordered", BOXES)]


def rejected(shop, conversation):
    found = decide(shop, conversation, report(shop, conversation), "reject")
    claim(found["check"] == "rejected", "the checkpoint is rejected")
    claim(found["order"] == "not_reached" and found["decline"] == "done", "the order is declined and not made")
    return [("declined", 0)]


def killed(shop, conversation):
    approval = report(shop, conversation)
    shop.hold.touch()
    print("$ weft agents run weekly-report ... human-response: approve")
    process = shop.start(*request(conversation, decision(shop, approval, "approve")), "--json")
    try:
        wait_for_order(shop, conversation, process)
        process.send_signal(signal.SIGKILL)
        status = process.wait(PATIENCE_S)
    finally:
        process.kill()
        process.communicate()
        shop.hold.unlink()
    claim(status == -signal.SIGKILL, f"SIGKILL ended process {process.pid} between the order and the report")
    claim(shop.in_database(conversation) == [("ordered", BOXES)], "the order was made before the kill")
    print("$ weft agents run weekly-report ... continue")
    out, _ = shop.weft(*request(conversation, {"orchestrationAction": "continue"}), "--json")
    found = steps(json.loads(out))
    claim(found["order"] == found["supplies"] == "done", "another process ends the report")
    return [("ordered", BOXES)]


def rolled_back(shop, conversation):
    decide(shop, conversation, report(shop, conversation), "approve")
    print("$ weft orchestrations rollback ... --step order")
    listed, _ = shop.weft(*request(conversation, {"orchestrationAction": "rollback", "step": "order"}), "--json")
    found = json.loads(listed)["metadata"]
    effects = {of["step"]: of["status"] for of in found["rollback"]["effects"]}
    for step, status in effects.items():
        print(f"  {step}: {status}")
    claim(effects["order"] == "undone" and effects["sales"] == "reused", "the list says what is undone and reused")
    claim(shop.in_database(conversation) == [("ordered", BOXES)], "the list alone changes nothing")
    print("$ weft orchestrations rollback ... --step order --yes")
    perform = {"orchestrationAction": "rollback", "step": "order", "confirm": found["confirm"]}
    out, _ = shop.weft(*request(conversation, perform), "--json")
    claim(steps(json.loads(out))["order"] == "done", "the order was canceled and made again")
    return [("ordered", BOXES), ("canceled", -BOXES), ("ordered", BOXES)]


def wait_for_order(shop, conversation, process):
    """Waits until the result of the order is on record."""
    end = time.monotonic() + PATIENCE_S
    while not any(call["state"] == "settled" for call in shop.in_journal(conversation)):
        if process.poll() is not None:
            raise Failed(f"the process ended before it was killed: {process.communicate()}")
        if time.monotonic() > end:
            raise Failed("the order is not on record")


# A conversation for each, in this order.
ACTS = [approved, rejected, killed, rolled_back]


def compare(shop, expected):
    """Compares what the three places have, and returns `True` if all have what the acts made."""
    print("\nOrders and refusals in each place")
    print(f"{'conversation':14}{'expected':>10}{'database':>10}{'records':>10}{'journal':>10}")
    is_equal = True
    for conversation, made in expected.items():
        database = shop.in_database(conversation)
        records = shop.in_records(conversation)
        journal = shop.in_journal(conversation)
        counts = [len(made), len(database), len(records), sum(call["made"] for call in journal)]
        print(f"{conversation:14}" + "".join(f"{count:>10}" for count in counts))
        is_equal &= len(set(counts)) == 1 and made == database == records
    print("They have the same." if is_equal else "They differ.")
    return is_equal


def main():
    if not WEFT.exists():
        print(f"no program {WEFT}; build it: cargo build -p weftwork-cli --bin weft")
        return 2
    with tempfile.TemporaryDirectory(prefix="weft-demo-") as folder:
        shop = Shop(Path(folder))
        print(f"model {shop.env['WEFT_MODEL']}, agents {', '.join(AGENTS)}")
        expected = {}
        try:
            for number, act in enumerate(ACTS, 1):
                conversation = f"week-{number}"
                print(f"\n{number}. {act.__name__.replace('_', ' ').capitalize()}")
                expected[conversation] = act(shop, conversation)
            return 0 if compare(shop, expected) else 1
        except Failed as problem:
            print(f"this does not hold: {problem}")
            return 1


if __name__ == "__main__":
    sys.exit(main())
