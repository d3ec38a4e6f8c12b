"""The base class of all groups of settings, and the messages of their errors."""

from __future__ import annotations

from collections.abc import Iterable
from types import NoneType
from typing import ClassVar, Literal, Self, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, ModelWrapValidatorHandler, ValidationError, model_validator
from pydantic.fields import FieldInfo

from secl.errors import ParameterError

OFF = "off"
"""Spelling of None, in flags and files, for a setting that can be switched off."""


class Settings(BaseModel):
    """Base of all groups: immutable, without unknown keys, and with errors of one sentence.

    Raises:
        ParameterError: an unknown key, or a value of the wrong type or outside its range; the message names the key,
            the value and what is allowed.
    """

    TABLE: ClassVar[str] = ""
    """Prefix of the group's settings, such as "gate."; empty for settings without a group."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @model_validator(mode="wrap")
    @classmethod
    def _explain(cls, values: object, handler: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            return handler(values)
        except ValidationError as problem:
            raise ParameterError(describe(cls, problem)) from None


def describe(group: type[Settings], problem: ValidationError) -> str:
    """Return the first error of a validation as one sentence that names the key, the value and what is allowed."""
    error = problem.errors(include_url=False)[0]
    value = error["input"]
    if not error["loc"]:
        return f"{value!r} is not a table of settings; the settings are {', '.join(group.model_fields)}."
    key = str(error["loc"][0])
    if key not in group.model_fields:
        return f"there is no setting {group.TABLE + key!r}; the settings are {', '.join(group.model_fields)}."
    field = group.model_fields[key]
    # A flag gives a number as a text, whose quotes would mislead in the message.
    number = error["type"].startswith(("greater_than", "less_than", "finite"))
    return f"{group.TABLE}{key} is {value if number else repr(value)}; it must be {allowed(field)}."


_TYPES = {int: "a whole number", float: "a finite number", bool: "true or false", str: "a text"}


def allowed(field: FieldInfo) -> str:
    """Return the type and the range of a setting in words."""
    kinds = [kind for kind in get_args(field.annotation) or (field.annotation,) if kind is not NoneType]
    if get_origin(field.annotation) is Literal or get_origin(kinds[0]) is Literal:
        how_many = "a list of one or more" if get_origin(field.annotation) is tuple else "one"
        return f"{how_many} of {', '.join(map(str, kinds if isinstance(kinds[0], str) else get_args(kinds[0])))}"
    if get_origin(field.annotation) is tuple:
        return "a list of names"
    words = " ".join([_TYPES.get(kinds[0], "a table of settings"), *_range(field.metadata)])
    return f"{words}, or {OFF}" if any(isinstance(part, BeforeValidator) for part in field.metadata) else words


def _range(constraints: Iterable[object]) -> list[str]:
    bounds = {
        name: getattr(constraint, name)
        for constraint in constraints
        for name in ("ge", "gt", "le", "lt")
        if hasattr(constraint, name)
    }
    if {"ge", "le"} <= set(bounds):
        return [f"from {bounds['ge']} to {bounds['le']}"]
    words = {"ge": "of at least", "gt": "above", "le": "at most", "lt": "below"}
    parts = [f"{words[name]} {bounds[name]:g}" if name != "lt" else f"below {bounds[name]}" for name in bounds]
    return [" and ".join(parts)] if parts else []
