"""An MCP server with tools whose schemas are those of the Python library's type hints."""

from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal, Optional, Union
from uuid import UUID

from mcp.server import MCPServer
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

server = MCPServer("typed")


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Point(BaseModel):
    x: int
    y: float = 0.0
    tags: list[str] = []


class Pair(TypedDict):
    left: str
    right: int


@dataclass
class Box:
    width: int
    point: Optional[Point] = None


class Tree(BaseModel):
    name: str
    children: list["Tree"] = []


def tool(name, hint):
    def run(a):
        return f"{name}: {a!r}"

    run.__annotations__ = {"a": hint, "return": str}
    run.__name__ = name
    server.tool()(run)


for name, hint in {
    "text": str, "number": float, "integer": int, "flag": bool, "optional": Optional[str],
    "union": Union[int, str], "literal": Literal["one", "two"], "enum": Color, "list": list[int],
    "dict": dict[str, int], "any": Any, "model": Point, "typed_dict": Pair, "dataclass": Box,
    "moment": datetime, "day": date, "uuid": UUID, "decimal": Decimal, "tuple": tuple[int, str],
    "set": set[str], "bytes": bytes, "limits": Annotated[int, Field(ge=0, lt=10)],
    "pattern": Annotated[str, Field(pattern="^a+$")], "tree": Tree,
    "nested": dict[str, list[Optional[Point]]],
}.items():
    tool(name, hint)


@server.tool()
def a_model() -> Point:
    return Point(x=1)


@server.tool()
def a_list() -> list[Point]:
    return [Point(x=1), Point(x=2)]


@server.tool()
def a_number() -> int:
    return 7


@server.tool()
def nothing() -> None:
    return None


@server.tool()
def a_dict() -> dict[str, Any]:
    return {"a": [1, None], "b": {"c": 2.5}}


@server.tool()
def raises() -> str:
    raise ValueError("it broke")


server.run("stdio")
