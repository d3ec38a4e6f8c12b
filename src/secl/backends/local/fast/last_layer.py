"""Run the last decoder layer only at the requested positions.

Keys and values of the last layer are needed at every token, but queries, the output projection and the feed-forward
part at the requested ones alone. Hooks hand those modules the requested rows and put zeros in the place of the others,
which nobody reads.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from secl.errors import ModelError

PER_ROW = ("self_attn.q_proj", "self_attn.o_proj", "mlp")
"""Modules of a decoder layer that work on each token alone and matter at the requested ones only, by their usual
names. Not the key and value projections, because the requested tokens attend to all others, and not the norms, which
are cheap."""


class LastLayerSlicer:
    """Slices the last layer inside `with slicer.only(rows)`; outside it nothing changes.

    Args:
        layer: the last decoder layer; one without modules of the usual names is left as it is.
    """

    def __init__(self, layer: nn.Module) -> None:
        self._rows: Tensor | None = None
        self._length = 0
        modules = dict(layer.named_modules())
        self._hooks: list[Any] = []
        for name in PER_ROW:
            if name in modules:
                self._hooks.append(modules[name].register_forward_pre_hook(self._take_rows))
                self._hooks.append(modules[name].register_forward_hook(self._put_back))

    def close(self) -> None:
        """Leave the layer as it was found."""
        for hook in self._hooks:
            hook.remove()

    @contextmanager
    def only(self, rows: Tensor) -> Iterator[None]:
        """Within the block only the tokens `rows` of a single row of tokens are right."""
        self._rows = rows
        try:
            yield
        finally:
            self._rows = None

    def _take_rows(self, _module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
        if self._rows is None:
            return None
        self._length = args[0].shape[1]
        return (args[0][:, self._rows.to(args[0].device)], *args[1:])

    def _put_back(self, _module: nn.Module, _args: tuple[Any, ...], out: Any) -> Any:
        if self._rows is None:
            return None
        if isinstance(out, tuple):  # a mixture of experts also says which of them it took
            return (self._put_back(_module, _args, out[0]), *out[1:])
        if not isinstance(out, Tensor) or out.ndim != 3:
            raise ModelError("its last layer cannot be narrowed to some tokens.")
        # The code between the modules (residuals, reshapes, attention) expects every token. Out of place, so that
        # gradients flow through.
        rows = self._rows.to(out.device)
        return out.new_zeros(out.shape[0], self._length, out.shape[2]).index_copy(1, rows, out)
