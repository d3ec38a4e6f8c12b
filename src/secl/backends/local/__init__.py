"""Models in this process: transformers, PEFT and the fast path."""

import logging

# Where bitsandbytes is installed, PEFT imports it, and it says at every start which faster kernels it does not find,
# and at every product of 8-bit weights that it rounds.
logging.getLogger("bitsandbytes").setLevel(logging.ERROR)
