"""LangChain and litellm, unchanged, against a server: prints what they got as JSON.

    PYTHON foreign_clients.py http://127.0.0.1:8080/v1 MODEL

PYTHON has langchain-openai and litellm and need not have secl; `test_clients.py` runs it and checks what is printed.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

TALK = [
    ("system", "Answer like a pirate."),
    ("user", "What is the capital of France?"),
    ("assistant", "Paris, arr."),
    ("user", "And of Italy?"),
]


def with_langchain(url: str, model: str) -> dict[str, Any]:
    """What `ChatOpenAI` returns: whole, as a stream, asynchronously, drawn twice by a seed, and refused."""
    from langchain_core.exceptions import ContextOverflowError
    from langchain_core.messages import convert_to_messages
    from langchain_openai import ChatOpenAI

    chat = ChatOpenAI(model=model, base_url=url, api_key="none", temperature=0, max_tokens=20, max_retries=0)
    whole = chat.invoke(TALK)
    chunks = list(chat.stream(TALK, stream_usage=True))
    drawn = ChatOpenAI(
        model=model, base_url=url, api_key="none", temperature=1, seed=3, n=3, max_tokens=8, max_retries=0
    )
    several = [[each.text for each in drawn.generate([convert_to_messages(TALK)]).generations[0]] for _ in range(2)]
    stopped = chat.invoke(TALK, stop=[whole.content[5:8]])
    probable = chat.bind(logprobs=True, top_logprobs=2).invoke(TALK)
    try:
        chat.invoke(TALK, max_tokens=40_000)
        refused = ""
    except ContextOverflowError as problem:
        refused = str(problem)
    return {
        "whole": whole.content,
        "finish": whole.response_metadata["finish_reason"],
        "usage": dict(whole.usage_metadata),
        "stream": "".join(chunk.content for chunk in chunks),
        "pieces": len([chunk for chunk in chunks if chunk.content]),
        "stream_usage": dict(next(chunk.usage_metadata for chunk in chunks if chunk.usage_metadata)),
        "async": asyncio.run(chat.ainvoke(TALK)).content,
        "several": several,
        "stopped": stopped.content,
        "logprobs": "".join(token["token"] for token in probable.response_metadata["logprobs"]["content"]),
        "refused": refused,
    }


def with_litellm(url: str, model: str) -> dict[str, Any]:
    """What `litellm.completion` returns: whole, as a stream, and asynchronously."""
    import litellm

    messages = [{"role": role, "content": text} for role, text in TALK]
    asked: dict[str, Any] = {"model": f"openai/{model}", "api_base": url, "api_key": "none", "max_tokens": 20}
    whole = litellm.completion(messages=messages, temperature=0, user="me", **asked)
    chunks = list(litellm.completion(messages=messages, stream=True, **asked))
    again = asyncio.run(litellm.acompletion(messages=messages, **asked))
    return {
        "whole": whole.choices[0].message.content,
        "finish": whole.choices[0].finish_reason,
        "usage": whole.usage.model_dump(include={"prompt_tokens", "completion_tokens", "total_tokens"}),
        "secl": whole.model_extra.get("secl") if whole.model_extra else None,
        "stream": "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices),
        "pieces": len([chunk for chunk in chunks if chunk.choices and chunk.choices[0].delta.content]),
        "async": again.choices[0].message.content,
    }


if __name__ == "__main__":
    json.dump({"langchain": with_langchain(*sys.argv[1:]), "litellm": with_litellm(*sys.argv[1:])}, sys.stdout)
