"""LangChain and litellm, unchanged, against a server: prints what they got as JSON.

    PYTHON foreign_clients.py http://127.0.0.1:8080/v1 MODEL

PYTHON has langchain-openai and litellm and need not have secl; `test_clients.py` runs it and checks what is printed.
"""

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
    """What `ChatOpenAI` returns: whole, as a stream, and asynchronously."""
    from langchain_openai import ChatOpenAI

    chat = ChatOpenAI(model=model, base_url=url, api_key="none", temperature=0, max_tokens=20, max_retries=0)
    whole = chat.invoke(TALK)
    return {
        "whole": whole.content,
        "tokens": dict(whole.usage_metadata)["total_tokens"],
        "stream": "".join(chunk.content for chunk in chat.stream(TALK, stream_usage=True)),
        "async": asyncio.run(chat.ainvoke(TALK)).content,
    }


def with_litellm(url: str, model: str) -> dict[str, Any]:
    """What `litellm.completion` returns: whole with its confidence, as a stream, and asynchronously."""
    import litellm

    messages = [{"role": role, "content": text} for role, text in TALK]
    request: dict[str, Any] = {"model": f"openai/{model}", "api_base": url, "api_key": "none", "max_tokens": 20}
    whole = litellm.completion(messages=messages, temperature=0, user="me", **request)
    chunks = list(litellm.completion(messages=messages, stream=True, **request))
    return {
        "whole": whole.choices[0].message.content,
        "tokens": whole.usage.total_tokens,
        "confidence": whole.model_extra["secl"]["confidence"],
        "stream": "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices),
        "async": asyncio.run(litellm.acompletion(messages=messages, **request)).choices[0].message.content,
    }


if __name__ == "__main__":
    json.dump({"langchain": with_langchain(*sys.argv[1:]), "litellm": with_litellm(*sys.argv[1:])}, sys.stdout)
