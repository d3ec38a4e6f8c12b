"""Models that run in this process, with transformers and PEFT."""

import logging
from importlib.util import find_spec

from secl.errors import ModelError, needs

_NEEDED = ("torch", "transformers", "accelerate", "peft", "gguf")
"""Packages of the extra `local`. Only modules under `secl.backends.local` import them."""

for _name in _NEEDED:
    if find_spec(_name) is None:
        raise ModelError(needs("a model in this process", _name, "local"))

# PEFT imports bitsandbytes, if installed. bitsandbytes warns of missing kernels at every start, and of rounding at
# every product of 8-bit weights.
logging.getLogger("bitsandbytes").setLevel(logging.ERROR)
