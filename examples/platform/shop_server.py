"""An MCP server of a shop, over standard input and output: `shop_server.py sqlite|orders FILE`.

The tools `sqlite` read the database of the shop, and the tools `orders` change it. While a file of the name
of the database with the ending `.hold` exists, reads of supplies wait: the demo kills a process that waits.
"""

import contextlib
import json
import sqlite3
import sys
import time
from pathlib import Path

SCHEMA = """
CREATE TABLE IF NOT EXISTS supplies (reference TEXT NOT NULL, boxes INTEGER NOT NULL, status TEXT NOT NULL);
"""


def tool(name, description, **members):
    schema = {"type": "object", "properties": members, "required": list(members)}
    return {"name": name, "description": description, "inputSchema": schema}


TEXT = {"type": "string", "minLength": 1, "maxLength": 1000}
REFERENCE = {**TEXT, "description": "The name of the order, such as week 1."}
TOOLS = {
    "sqlite": [
        tool("list_tables", "Lists the tables of the database."),
        tool("describe_table", "Describes the columns of a table.", table_name=TEXT),
        tool("read_query", "Reads rows with a query in SQL.", query=TEXT),
    ],
    "orders": [
        tool(
            "place_order",
            "Orders boxes of supplies. A second order of the same reference changes nothing.",
            reference=REFERENCE,
            boxes={"type": "integer", "minimum": 1, "maximum": 1000, "description": "The number of boxes."},
        ),
        tool("decline_order", "Notes that an order was declined.", reference=REFERENCE),
        tool("cancel_order", "Cancels an order that was made.", reference=REFERENCE),
    ],
}


class Shop:
    def __init__(self, file):
        self.file = Path(file)

    def query(self, text, *values):
        with contextlib.closing(sqlite3.connect(self.file, timeout=10)) as database, database:
            database.row_factory = sqlite3.Row
            database.executescript(SCHEMA)
            return [dict(row) for row in database.execute(text, values)]

    def list_tables(self):
        return self.query("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")

    def describe_table(self, table_name):
        return self.query("SELECT name, type FROM pragma_table_info(?)", table_name)

    def read_query(self, query):
        if not query.lstrip().upper().startswith("SELECT"):
            raise ValueError("only SELECT is allowed")
        while "supplies" in query and self.file.with_suffix(".hold").exists():
            time.sleep(0.02)
        return self.query(query)

    def place_order(self, reference, boxes):
        return self.note(reference, boxes, "ordered")

    def decline_order(self, reference):
        return self.note(reference, 0, "declined")

    def cancel_order(self, reference):
        last = self.last(reference)
        if last is None or last["status"] == "declined":
            raise ValueError(f"there is no order {reference}")
        return self.note(reference, -abs(last["boxes"]), "canceled")

    def last(self, reference):
        rows = self.query("SELECT * FROM supplies WHERE reference = ? ORDER BY rowid DESC LIMIT 1", reference)
        return rows[0] if rows else None

    def note(self, reference, boxes, status):
        """Adds a row, unless the last one of the reference has this status."""
        last = self.last(reference)
        if last is None or last["status"] != status:
            self.query("INSERT INTO supplies VALUES (?, ?, ?)", reference, boxes, status)
        return self.last(reference)


def answer(kind, shop, method, params):
    if method == "initialize":
        server = {"name": kind, "version": "1"}
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": server}
    if method == "tools/list":
        return {"tools": TOOLS[kind]}
    if method == "tools/call" and params["name"] in [tool["name"] for tool in TOOLS[kind]]:
        try:
            result = getattr(shop, params["name"])(**params.get("arguments", {}))
        except (sqlite3.Error, TypeError, ValueError) as problem:
            return {"content": [{"type": "text", "text": str(problem)}], "isError": True}
        return {"content": [{"type": "text", "text": json.dumps(result)}]}
    raise LookupError(method)


def serve(kind, shop):
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        reply = {"jsonrpc": "2.0", "id": message["id"]}
        try:
            reply["result"] = answer(kind, shop, message["method"], message.get("params"))
        except LookupError as problem:
            reply["error"] = {"code": -32601, "message": str(problem)}
        print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    serve(sys.argv[1], Shop(sys.argv[2]))
