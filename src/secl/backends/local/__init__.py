"""Models in this process: transformers, PEFT and the fast path."""

import logging
from importlib.util import find_spec

from secl.errors import ModelError, needs

_NEEDED = ("torch", "transformers", "accelerate", "peft", "gguf")
"""Packages of the extra `local`, which only this package imports."""

for _name in _NEEDED:
    if find_spec(_name) is None:
        raise ModelError(needs("a model in this process", _name, "local"))

# PEFT imports bitsandbytes, if installed. At every start bitsandbytes reports missing faster kernels, and at every
# product of 8-bit weights it reports rounding.
logging.getLogger("bitsandbytes").setLevel(logging.ERROR)
