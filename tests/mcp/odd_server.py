"""An MCP server whose tools are odd, each in one way: their declarations and their results.

With `ODD=NUMBER` it has that tool alone, and with `ODD=readable` those that the reference client reads in
a list, which one of the others costs as a whole. A tool returns its name, unless its result is odd.
"""

import json
import os
import sys

OBJECT = {"type": "object", "properties": {}}


def with_property(schema):
    return {"type": "object", "properties": {"a": schema}}


SCHEMAS = [
    *(with_property(property) for property in (
        True, False, {}, {"type": "str"}, {"type": "int"}, {"type": "any"}, {"type": ["string", "null"]},
        {"type": "string", "nullable": True}, {"type": "string", "format": "no-such-format"},
        {"type": "string", "pattern": "^(?=a)b$"}, {"type": "string", "pattern": "("},
        {"type": "string", "pattern": "\\p{L}+"}, {"type": "string", "minLength": 0, "maxLength": 10 ** 9},
        {"type": "number", "minimum": 0, "exclusiveMinimum": True}, {"type": "number", "exclusiveMinimum": 0},
        {"type": "number", "multipleOf": 0.01}, {"type": "integer", "minimum": -(2 ** 63)},
        {"type": "integer", "maximum": 2 ** 64 - 1}, {"enum": [1, "a", None, True]}, {"enum": ["a"] * 2},
        {"const": None}, {"const": {"b": [1]}}, {"default": 1}, {"type": "string", "default": 1},
        {"anyOf": [{"type": "string"}, {"type": "null"}]}, {"oneOf": [{"type": "string"}, {"type": "number"}]},
        {"allOf": [{"type": "object"}, {"properties": {"b": {"type": "string"}}}]},
        {"not": {"type": "string"}}, {"if": {"type": "string"}, "then": {"minLength": 0}},
        {"type": "array", "items": {"type": "string"}}, {"type": "array", "items": [{"type": "string"}]},
        {"type": "array", "prefixItems": [{"type": "string"}], "items": False}, {"type": "array"},
        {"type": "object", "additionalProperties": {"type": "string"}},
        {"type": "object", "patternProperties": {"^x-": {"type": "string"}}},
        {"type": "object", "propertyNames": {"pattern": "^[a-z]+$"}},
        {"type": "object", "dependentRequired": {"b": ["c"]}}, {"type": "string", "title": "Titel ä"},
        {"type": "string", "description": "line\nline"}, {"type": "string", "examples": ["a"]},
        {"type": "string", "x-own": {"b": 1}}, {"type": "string", "deprecated": True},
        {"type": "string", "readOnly": True}, {"type": "string", "contentEncoding": "base64"},
        {"type": "string", "required": True}, {"type": "string", "required": False},
        {"$ref": "#/$defs/none"}, {"$ref": "#"}, {"$comment": "x"}, {"type": "null"}, {"type": "boolean"},
    )),
    {"type": "object"},
    {"type": "object", "properties": {}, "additionalProperties": False},
    {"type": "object", "properties": {"a": {"type": "string"}}, "required": []},
    {"type": "object", "properties": {"a": {"type": "string"}}, "required": None},
    {"type": "object", "properties": None},
    {"type": "object", "properties": []},
    {"properties": {"a": {"type": "string"}}},
    {},
    {"type": "OBJECT", "properties": {}},
    {"$schema": "http://json-schema.org/draft-07/schema#", **OBJECT},
    {"$schema": "http://json-schema.org/draft-04/schema#", **OBJECT},
    {"$schema": "https://json-schema.org/draft/2019-09/schema", **OBJECT},
    {"$schema": "no schema", **OBJECT},
    {"$id": "https://127.0.0.1/x.json", **OBJECT},
    {"definitions": {"b": {"type": "string"}}, **with_property({"$ref": "#/definitions/b"})},
    {"$defs": {"b": {"type": "string"}}, **with_property({"$ref": "#/$defs/b"})},
    {"anyOf": [OBJECT, OBJECT], "type": "object"},
    {"type": "object", "properties": {"$a": {"type": "string"}, "b.c": {"type": "string"}}},
    {"type": "object", "properties": {"": {"type": "string"}}},
    {"type": "object", "properties": {"a" * 200: {"type": "string"}}},
    {"type": "object", "properties": {"ä b": {"type": "string"}}},
    {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(200)}},
]

MEMBERS = [
    {"description": ""}, {"description": None}, {"description": "x" * 2_000}, {"title": "T"}, {"title": None},
    {"annotations": {}}, {"annotations": None}, {"annotations": {"readOnlyHint": True, "own": 1}},
    {"icons": []}, {"icons": [{"src": "data:image/png;base64,AA=="}]}, {"_meta": {}}, {"_meta": {"a": [1]}},
    {"execution": {"taskSupport": "optional"}}, {"own": {"a": 1}}, {"outputSchema": None},
    {"description": "emoji \U0001f600 and \u0000 zero"},
]

TEXT = {"type": "text", "text": "a"}
RESULTS = [
    {"content": []}, {"content": [TEXT, TEXT]}, {"content": [TEXT], "isError": False},
    {"content": [TEXT], "isError": True}, {"content": [TEXT], "isError": None},
    {"content": [TEXT], "structuredContent": {"a": 1}}, {"content": [], "structuredContent": {"a": [1]}},
    {"content": [TEXT], "structuredContent": None}, {"content": [TEXT], "_meta": {"a": 1}},
    {"content": [{"type": "image", "data": "AAAA", "mimeType": "image/png"}]},
    {"content": [{"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}]},
    {"content": [{"type": "resource", "resource": {"uri": "x:1", "text": "a"}}]},
    {"content": [{"type": "resource", "resource": {"uri": "x:1", "blob": "AAAA"}}]},
    {"content": [{"type": "resource_link", "uri": "x:1", "name": "a"}]},
    {"content": [{**TEXT, "annotations": {"audience": ["user"], "priority": 0.5}}]},
    {"content": [{**TEXT, "annotations": {"lastModified": "2026-01-01T00:00:00Z"}}]},
    {"content": [{**TEXT, "own": 1}]}, {"content": [{"type": "text", "text": ""}]},
    {"content": [{"type": "text", "text": "\u2028 \U0001f600 \u0000"}]},
    {"content": [{"type": "text", "text": "x" * 300_000}]},
    {"content": [TEXT], "structuredContent": {"n": 2 ** 53 + 1}},
    {"content": [TEXT], "structuredContent": {"n": 1e300}},
    {}, {"content": [TEXT], "own": 1},
]


def all_tools():
    for number, schema in enumerate(SCHEMAS):
        yield {"name": f"schema_{number}", "description": "d", "inputSchema": schema}, None
    for number, members in enumerate(MEMBERS):
        yield {"name": f"member_{number}", "description": "d", "inputSchema": OBJECT, **members}, None
    for number, result in enumerate(RESULTS):
        yield {"name": f"result_{number}", "description": "d", "inputSchema": OBJECT}, result
    for name in ("a.b", "a-b", "A_B", "a" * 64, "9", "get", "list_tools"):
        yield {"name": name, "description": "d", "inputSchema": OBJECT}, None


TOOLS = list(all_tools())
UNREADABLE = [f"schema_{number}" for number in range(56, 60)]


def answer(message):
    method, params = message["method"], message.get("params") or {}
    if method == "initialize":
        return {"result": {
            "protocolVersion": params["protocolVersion"] if params["protocolVersion"] < "2026" else "2025-11-25",
            "capabilities": {"tools": {}}, "serverInfo": {"name": "odd", "version": "1"},
        }}
    only = os.environ.get("ODD")
    if only == "readable":
        tools = [tool for tool in TOOLS if tool[0]["name"] not in UNREADABLE]
    else:
        tools = TOOLS if only is None else [TOOLS[int(only)]]
    if method == "tools/list":
        return {"result": {"tools": [tool for tool, _ in tools]}}
    if method == "tools/call":
        for tool, result in tools:
            if tool["name"] == params["name"]:
                text = {"content": [{"type": "text", "text": tool["name"]}]}
                return {"result": text if result is None else result}
    return {"error": {"code": -32601, "message": f"no method {method}"}}


def main():
    if sys.argv[1:] == ["--count"]:
        print(len(TOOLS))
        return
    for line in sys.stdin:
        message = json.loads(line)
        if message.get("id") is not None and "method" in message:
            reply = {"jsonrpc": "2.0", "id": message["id"], **answer(message)}
            print(json.dumps(reply), flush=True)


main()
