"""Matrix products of a single row, as in writing one text token by token."""

from __future__ import annotations

from contextlib import AbstractContextManager
from threading import Lock
from typing import Any

import torch

ONEDNN: Any = torch.backends.mkldnn
"""PyTorch's switch, under the library's older name."""


class _WithoutOneDNN(AbstractContextManager[None]):
    """Switches oneDNN off; the last of several threads to leave puts back what the first one found."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._inside = 0
        self._before = True

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._before = ONEDNN.enabled
            self._inside += 1
            ONEDNN.enabled = False

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                ONEDNN.enabled = self._before


fast_single_row = _WithoutOneDNN()
"""Inside, products of one row in 16 bits take about half the time on a CPU; those of more rows take longer.

Such a product multiplies a vector with a matrix, for which PyTorch's own kernels read the weights once and as they are.
oneDNN, which takes all 16-bit products otherwise, is made for many rows. The switch is one for the whole process:
passes of other threads are right meanwhile, but slow.
"""
