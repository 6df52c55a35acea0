"""An MCP server with a tool that asks by a form, and one that says what it is told."""

import json

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.types import ElicitRequest, ElicitRequestFormParams, InputRequiredResult, ToolAnnotations


def form(required=(), **properties):
    return {"type": "object", "properties": properties, "required": list(required)}


def titled(prefix, count=3):
    return [{"const": f"{prefix}{n}", "title": f"Option {n}"} for n in range(1, count + 1)]


def names(prefix):
    return [f"{prefix}{n}" for n in range(1, 4)]


FORMS = {
    "colour": form(["reply"], reply={"type": "string"}),
    "ok": form(["ok"], ok={"type": "boolean"}),
    "name": form(["name"], name={"type": "string"}),
    "color": form(["color"], color={"type": "string"}),
    "user": form(["username", "email"], username={"type": "string"}, email={"type": "string"}),
    "defaults": form(
        name={"type": "string", "default": "John Doe"},
        age={"type": "integer", "default": 30},
        score={"type": "number", "default": 95.5},
        status={"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        verified={"type": "boolean", "default": True},
    ),
    "choices": form(
        untitledSingle={"type": "string", "enum": names("option")},
        titledSingle={"type": "string", "oneOf": titled("value")},
        legacyEnum={
            "type": "string", "enum": names("opt"), "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        untitledMulti={"type": "array", "items": {"type": "string", "enum": names("option")}},
        titledMulti={"type": "array", "items": {"anyOf": titled("value")}},
    ),
}
server = MCPServer("desk")
READS = ToolAnnotations(readOnlyHint=True)


@server.tool(annotations=READS)
async def ask(form: str, ctx: Context) -> str | InputRequiredResult:
    """Asks by a form, and returns the answer."""
    if ctx.input_responses:
        return json.dumps(ctx.input_responses["form"].content)
    asked = ElicitRequestFormParams(message=f"Which {form}?", requested_schema=FORMS[form])
    return InputRequiredResult(input_requests={"form": ElicitRequest(params=asked)})


@server.tool(annotations=READS)
async def say(text: str) -> str:
    """Says a text."""
    return text


if __name__ == "__main__":
    server.run()
