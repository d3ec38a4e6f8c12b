"""Predictions of DSPy that carry the confidence of each field, from a server of secl.

secl serve state --model smollm2
python examples/dspy_confidence.py http://127.0.0.1:8080/v1 smollm2 "country -> capital" Peru
"""

from __future__ import annotations

import sys
from typing import Any

import dspy
from dspy.lm15 import AccessPolicy, ModelSupport, OpenAIChatCompat, ProviderDefinition, register_provider

from secl.client import reply_of


def configure(url: str, model: str) -> None:
    """Make DSPy use a server of secl, and ask it for JSON objects, whose fields get confidences."""
    access = AccessPolicy(provider="secl", env_keys=("SECL_API_KEY",), base_url=url)
    supports = ModelSupport(response_schema=True)
    register_provider(ProviderDefinition.chat(access, compat=OpenAIChatCompat()), supports=supports, replace=True)
    dspy.configure(lm=dspy.LM(f"secl/{model}", api_base=url, api_key="none"), adapter=dspy.JSONAdapter())


class Confident(dspy.Predict):
    """`dspy.Predict` whose predictions have `confidence`, of the whole object, and `confidences`, of its fields."""

    def forward(self, **inputs: Any) -> dspy.Prediction:
        lm = (self.lm or dspy.settings.lm).copy()  # with a history of this call alone, also in threads
        prediction = super().forward(**inputs, lm=lm)
        reply = reply_of(lm.history[-1]["response"].provider_data)
        prediction.confidence = reply["confidence"]
        prediction.confidences = {name: field["confidence"] for name, field in reply.get("fields", {}).items()}
        return prediction


if __name__ == "__main__":
    url, model, signature, value = sys.argv[1:]
    configure(url, model)
    print(Confident(signature)(**{next(iter(dspy.Signature(signature).input_fields)): value}))
