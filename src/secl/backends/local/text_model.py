"""The text model inside a model: a part of a multimodal one, the whole of any other but for its head."""

from __future__ import annotations

from typing import Any


def text_config(config: Any) -> Any:
    """The part of a configuration that is about the text model."""
    return config.get_text_config(decoder=True)


def decoder_of(model: Any) -> Any:
    """The text model without its head; the model itself where transformers does not know its parts."""
    decoder = model.get_decoder()
    return getattr(model, "model", model) if decoder is model else decoder  # Llama 4 has another name for it
