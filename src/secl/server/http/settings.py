"""Limits of HTTP requests."""

from __future__ import annotations

from pydantic import Field

from secl.settings_base import Settings


class HttpSettings(Settings):
    """What one HTTP request may ask for."""

    max_body_bytes: int = Field(default=2**20, ge=1, description="Largest request body, in bytes (413 beyond).")
    max_prompt_chars: int = Field(
        default=100_000, ge=1, description="Longest question with its context and options, in characters (413 beyond)."
    )
    max_concurrent: int = Field(default=1024, ge=1, description="Most requests at the same time (429 beyond).")
    timeout: float = Field(default=60.0, gt=0, description="Seconds until a request is given up (503).")
    refusal: str | None = Field(
        default=None, description="Text in place of an answer that is not accepted; the answer itself is stored."
    )
    served_model_name: str | None = Field(
        default=None, description="Model name reported by the API; that of the model by default."
    )
