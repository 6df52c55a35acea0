"""A chat model without a network: it plays steps, or answers by a function.

The programs of this folder use it where a product would use `init_chat_model`.
"""

import itertools
import json
from collections.abc import Callable, Iterator
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from pydantic import PrivateAttr

CALLS = itertools.count(1)


def call(name: str, **args: Any) -> AIMessage:
    """An answer that calls one tool."""
    made = {"name": name, "args": args, "id": f"call_{next(CALLS)}"}
    return AIMessage("", tool_calls=[made])


class ScriptedModel(BaseChatModel):
    """Plays one step per call: a text, a message, or an exception to raise."""

    steps: list[Any] = []
    reply: Callable[[list[BaseMessage]], AIMessage | str] | None = None
    _calls: int = PrivateAttr(default=0)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    @property
    def calls(self) -> int:
        """The number of calls so far."""
        return self._calls

    def bind_tools(self, tools: Any, **options: Any) -> "ScriptedModel":
        return self

    def _next(self, messages: list[BaseMessage]) -> AIMessage:
        self._calls += 1
        step = self.reply(messages) if self.reply else self.steps[self._calls - 1]
        if isinstance(step, Exception):
            raise step
        return AIMessage(step) if isinstance(step, str) else step

    def _generate(
        self, messages: list[BaseMessage], *args: Any, **options: Any
    ) -> ChatResult:
        message = self._next(messages)
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _stream(
        self, messages: list[BaseMessage], *args: Any, **options: Any
    ) -> Iterator[ChatGenerationChunk]:
        message = self._next(messages)
        words = message.text.split(" ")
        for place, word in enumerate(words):
            last = place + 1 == len(words)
            calls = [
                {**made, "args": json.dumps(made["args"]), "index": index}
                for index, made in enumerate(message.tool_calls)
            ]
            yield ChatGenerationChunk(
                message=AIMessageChunk(
                    word if last else f"{word} ",
                    tool_call_chunks=calls if last else [],
                    chunk_position="last" if last else None,
                )
            )
