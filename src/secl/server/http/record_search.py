"""The query of a search for records: the same for `/v1/records` and for the page."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from secl.errors import ParameterError, RequestError
from secl.server.audit.entries import position_of
from secl.server.audit.search import Filter, Labelled
from secl.server.http.schemas import Text


class Search(BaseModel):
    """Which records are looked for; a parameter that is left out lets all through.

    query: words that question and answer together contain; put double quotes around words that stand side by side.
    label: what people said of the answer, `none` while nobody did. accepted: whether the threshold accepted it.
    learned: whether the model learned from it. before: the `before` of the page before this one.
    """

    model_config = ConfigDict(extra="forbid")
    query: Annotated[Text, Field(max_length=200)] = ""
    domain: Annotated[Text, Field(max_length=100)] = ""
    min_confidence: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = 0.0
    max_confidence: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = 1.0
    label: Labelled | None = None
    accepted: bool | None = None
    learned: bool | None = None
    before: Annotated[Text, Field(max_length=30)] = ""
    count: Annotated[int, Field(ge=1, le=100)] = 30

    @property
    def filter(self) -> Filter:
        """The same for `secl.server.audit.search`."""
        return Filter(
            query=self.query,
            domain=self.domain or None,
            min_confidence=self.min_confidence,
            max_confidence=self.max_confidence,
            label=self.label,
            accepted=self.accepted,
            learned=self.learned,
        )


def position_named(name: str) -> int | None:
    """The position of a record from its id; None for the empty name.

    Raises:
        RequestError: 400, it is not the id of a record.
    """
    try:
        return position_of(name) if name else None
    except ParameterError as error:
        raise RequestError(400, str(error), "bad_value") from None
