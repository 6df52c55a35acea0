"""A chat model of one's own in an agent: text by the word, tool calls, usage.

    own_model.py TEXT

The model stands for any engine that is no provider of the library. It calls the
tool `multiply` for `A times B`, and says the result.
"""

import json
import re
import sys
from collections.abc import Iterator
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.utils.function_calling import convert_to_openai_tool


class Abacus(BaseChatModel):
    tools: list[dict[str, Any]] = []

    @property
    def _llm_type(self) -> str:
        return "abacus"

    def bind_tools(self, tools: Any, **options: Any) -> "Abacus":
        return Abacus(tools=[convert_to_openai_tool(tool) for tool in tools])

    def _stream(
        self, messages: list[BaseMessage], *args: Any, **options: Any
    ) -> Iterator[ChatGenerationChunk]:
        last = messages[-1]
        tools = [tool["function"]["name"] for tool in self.tools]
        factors = re.search(r"(\d+) times (\d+)", last.text)
        if last.type == "human" and factors and "multiply" in tools:
            arguments = json.dumps({"a": int(factors[1]), "b": int(factors[2])})
            calls = [{"name": "multiply", "args": arguments, "id": "1", "index": 0}]
            yield chunk("", tool_call_chunks=calls)
            words = 1
        else:
            text = f"It is {last.text}." if last.type == "tool" else "I only multiply."
            for word in re.findall(r"\S+\s*", text):
                yield chunk(word)
            words = len(text.split())
        read = sum(len(message.text.split()) for message in messages)
        total = {"input_tokens": read, "output_tokens": words}
        usage = {**total, "total_tokens": read + words}
        yield chunk("", usage_metadata=usage, chunk_position="last")

    def _generate(
        self, messages: list[BaseMessage], *args: Any, **options: Any
    ) -> ChatResult:
        answer = None
        for part in self._stream(messages):
            answer = part if answer is None else answer + part
        return ChatResult(generations=[ChatGeneration(message=answer.message)])


def chunk(text: str, **parts: Any) -> ChatGenerationChunk:
    return ChatGenerationChunk(message=AIMessageChunk(text, **parts))


def multiply(a: int, b: int) -> int:
    """Multiplies two numbers."""
    return a * b


def main() -> None:
    agent = create_agent(Abacus(), [multiply])
    request = {"messages": [{"role": "user", "content": " ".join(sys.argv[1:])}]}
    tokens = 0
    for part, _ in agent.stream(request, stream_mode="messages"):
        if not isinstance(part, AIMessageChunk):
            continue
        if part.text:
            print(f"[{part.text}]", end="")
        tokens += (part.usage_metadata or {}).get("total_tokens", 0)
    print(f"\n{tokens} tokens")


if __name__ == "__main__":
    main()
