"""Limits of HTTP requests."""

from __future__ import annotations

from pydantic import Field

from secl.settings_base import Settings

MAX_PROMPT_CHARS = 100_000
"""Longest question with its context and options, in characters (413 beyond); models read less."""

MAX_CHOICES = 16
"""Most texts that one request may ask for (400 beyond)."""

MAX_CONCURRENT = 1024
"""Most requests at the same time (429 beyond), four times as many as may wait for an answer."""


class HttpSettings(Settings):
    """What one HTTP request may ask for."""

    max_body_bytes: int = Field(default=2**20, ge=1, description="Largest request body, in bytes.")
    max_tokens: int = Field(
        default=1024,
        ge=1,
        le=2**31,
        description="Most tokens of a text.",
    )
    timeout: float = Field(
        default=300.0,
        gt=0,
        description="Seconds until a request is given up.",
    )
    refusal: str | None = Field(default=None, description="Text in place of an answer not accepted.")
    served_model_name: str | None = Field(default=None, description="Model name in replies; the model's own.")
