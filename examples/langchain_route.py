"""Answer with LangChain, and send answers and objects of low confidence to a person.

secl serve state --model smollm2 --accept 0.8
python examples/langchain_route.py http://127.0.0.1:8080/v1 smollm2 "What is the capital of Peru?"
"""

from __future__ import annotations

import sys
from typing import Any

from langchain_core.messages import AIMessage
from langchain_core.runnables import Runnable, RunnableBranch, RunnableLambda
from langchain_openai import ChatOpenAI

from secl.client import reply_of


class SeclChat(ChatOpenAI):
    """`ChatOpenAI`, which drops the object `secl`; here `response_metadata` has it."""

    def _create_chat_result(self, response: Any, generation_info: dict[str, Any] | None = None) -> Any:
        result = super()._create_chat_result(response, generation_info)
        for generation in result.generations:
            generation.message.response_metadata["secl"] = reply_of(response)
        return result


def accepted(reply: AIMessage) -> bool:
    """Whether the confidence reaches the threshold of the server."""
    return bool(reply.response_metadata["secl"]["accepted"])


def chain(chat: ChatOpenAI, person: Runnable[Any, Any]) -> Runnable[Any, Any]:
    """Return a chain that ends with the text, or with what a person makes of the reply."""
    return chat | RunnableBranch((accepted, lambda reply: reply.content), person)


def doubtful(chat: ChatOpenAI, schema: type, text: str) -> tuple[Any, list[str]]:
    """Return the object that a text contains, and the names of its fields that a person should check."""
    found = chat.with_structured_output(schema, include_raw=True).invoke(text)
    fields = found["raw"].response_metadata["secl"]["fields"]
    return found["parsed"], [name for name, field in fields.items() if not field["accepted"]]


if __name__ == "__main__":
    url, model, question = sys.argv[1:]
    ask = RunnableLambda(lambda reply: input(f"{reply.content} Right? If not, type the answer: ") or reply.content)
    print(chain(SeclChat(model=model, base_url=url, api_key="none"), ask).invoke(question))
