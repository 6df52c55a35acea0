"""Tools for the tests of the page, as an MCP server: slow ones, of which one pays, a large one, one that
fails, and one with a member of its result that nobody may see."""
import json
import pathlib
import time

from clock_server import serve

# A file that ends the call of a slow tool.
RELEASE = pathlib.Path("release")
# The orders that were paid, one a line.
PAYMENTS = pathlib.Path("payments")


def schema(**properties):
    return {"type": "object", "properties": properties, "required": list(properties)}


NUMBER = {"type": "number"}
TEXT = {"type": "string"}
PAY = {
    "name": "pay",
    "description": "Pays an order.",
    "inputSchema": schema(order=TEXT, cents=NUMBER),
    "outputSchema": {
        "type": "object",
        "properties": {"receipt": TEXT, "cents": {"type": "integer"}, "state": {"enum": ["paid", "refused"]}},
        "required": ["receipt", "cents"],
    },
}
TOOLS = [
    PAY,
    {"name": "slow", "description": "Waits.", "inputSchema": schema(seconds=NUMBER)},
    {"name": "careful", "description": "Changes something.", "inputSchema": schema(seconds=NUMBER)},
    {"name": "large", "description": "Returns much text.", "inputSchema": schema(bytes=NUMBER)},
    {"name": "broken", "description": "Fails.", "inputSchema": schema(why={"type": "string"})},
    {"name": "account", "description": "Reads an account.", "inputSchema": schema(number=NUMBER)},
]


def call(name, arguments):
    if name in ("slow", "careful"):
        end = time.monotonic() + arguments["seconds"]
        while time.monotonic() < end and not RELEASE.exists():
            time.sleep(0.02)
        RELEASE.unlink(missing_ok=True)
        return {"content": [{"type": "text", "text": "waited"}]}
    if name == "pay":
        return pay(arguments)
    if name == "large":
        lines = "".join(f"line {number}\n" for number in range(int(arguments["bytes"]) // 8))
        return {"content": [{"type": "text", "text": lines + "the last line"}]}
    if name == "broken":
        return {"isError": True, "content": [{"type": "text", "text": f"broken: {arguments['why']}"}]}
    found = {"number": arguments["number"], "owner": "Ada", "pin": "canary-7f3a"}
    text = [{"type": "text", "text": json.dumps(found)}]
    return {"content": text, "structuredContent": found}


def pay(arguments):
    """Pays at once, and answers when the test lets it; a second payment of an order is answered at once."""
    made = PAYMENTS.read_text().splitlines() if PAYMENTS.exists() else []
    with PAYMENTS.open("a") as payments:
        payments.write(f"{arguments['order']}\n")
    while arguments["order"] not in made and not RELEASE.exists():
        time.sleep(0.02)
    RELEASE.unlink(missing_ok=True)
    found = {"receipt": f"R-{arguments['order']}", "cents": arguments["cents"]}
    return {"content": [{"type": "text", "text": json.dumps(found)}], "structuredContent": found}


def answer(method, params):
    if method == "initialize":
        server = {"name": "lab", "version": "1"}
        version = params["protocolVersion"]
        return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": server}
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call":
        return call(params["name"], params["arguments"])
    raise LookupError(method)


if __name__ == "__main__":
    serve(answer)
