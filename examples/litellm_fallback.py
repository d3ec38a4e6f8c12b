"""A hook of LiteLLM, for programs, routers and the proxy: below a confidence, a larger model answers.

secl serve state --model smollm2
python examples/litellm_fallback.py http://127.0.0.1:8080/v1 smollm2 http://127.0.0.1:8000/v1 LARGE "Capital of Peru?"
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import litellm
from litellm.integrations.custom_logger import CustomLogger

from secl.client import reply_of
from secl.errors import ParameterError


class Fallback(CustomLogger):
    """Replaces replies of secl's server with a confidence below `least`, or without one. Works in `acompletion`.

    `larger` has the parameters of the larger model, such as `model` and `api_base`.
    """

    def __init__(self, least: float, **larger: Any) -> None:
        super().__init__()
        self.least, self.larger = least, larger

    async def async_post_call_success_deployment_hook(self, request_data: Any, response: Any, call_type: Any) -> Any:
        try:
            confidence = reply_of(response)["confidence"]
        except ParameterError:  # another server answered, for example the larger model
            return response
        if confidence is not None and confidence >= self.least:
            return response
        return await litellm.acompletion(messages=request_data["messages"], **self.larger)


if __name__ == "__main__":
    url, model, larger_url, larger, question = sys.argv[1:]
    litellm.callbacks = [Fallback(0.8, model=f"openai/{larger}", api_base=larger_url, api_key="none")]
    messages = [{"role": "user", "content": question}]
    reply = asyncio.run(litellm.acompletion(f"openai/{model}", messages=messages, api_base=url, api_key="none"))
    print(reply.model, reply.choices[0].message.content)
