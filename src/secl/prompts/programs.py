"""Short programs as answers to questions about numbers; their arithmetic is computed exactly, never executed."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from fractions import Fraction

FENCE = "```"
"""Mark before and after a program."""

OPENING = f"{FENCE}python\n"
"""Beginning of a reply that is a program."""

_ESCAPE = re.compile(r"\\[^\r\n]")
"""An escape in a string, replaced before parsing because Python warns of unknown escapes such as "\\$"."""

MOST_CHARACTERS = 2_000
"""Maximum number of characters of a program."""

MOST_BITS = 2_000
"""Maximum number of bits of the numerator, and of the denominator, of a result."""

MOST_PLACES = 50
"""Maximum number of decimal places of `round`."""

_BINARY: Mapping[type[ast.operator], Callable[[Fraction, Fraction], Fraction]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: lambda a, b: Fraction(a // b),
    ast.Mod: operator.mod,
}
_CALLS: Mapping[str, Callable[..., Fraction | int]] = {
    "abs": abs,
    "float": lambda number: number,
    "int": int,
    "max": max,
    "min": min,
    "round": round,
}

_PRINTED = "print()"
"""Key of the value that a program printed last; no program can assign to this name."""


class _NoResultError(Exception):
    """The program is not arithmetic, or has no usable result."""


def result_of(reply: str) -> Fraction | None:
    r"""Return the value of `answer` in a reply's program, else the number printed last; None without either.

    Programs may have assignments, the four operations, powers and a few functions of numbers. Programs with other
    constructs, such as loops, and unfinished programs have no result. Decimal numbers are exact.

    >>> str(result_of("price = 15 * (1 - 0.2)\nanswer = 3 * price - 6"))
    '30'
    >>> str(result_of("```python\nprint(2 ** 5 // 3)\n```\nThis prints 10."))
    '10'
    >>> result_of("while True: pass"), result_of("answer = 1 / 0"), result_of("answer = 9 ** 9 ** 9")
    (None, None, None)
    """
    _, opened, behind = reply.partition(FENCE)
    block, closed, _ = behind.partition("\n")[2].partition(FENCE)
    program = (block if opened else reply).strip()
    if (opened and not closed) or len(program) > MOST_CHARACTERS:
        return None
    names: dict[str, Fraction] = {}
    try:
        for line in ast.parse(_ESCAPE.sub("?", program)).body:
            _run(line, names)
    except (_NoResultError, SyntaxError, ArithmeticError, ValueError, TypeError, MemoryError, RecursionError):
        return None
    return names.get("answer", names.get(_PRINTED))


def _run(line: ast.stmt, names: dict[str, Fraction]) -> None:
    match line:
        case ast.Assign(targets=targets, value=value) if all(isinstance(each, ast.Name) for each in targets):
            number = _value(value, names)
            names.update({each.id: number for each in targets if isinstance(each, ast.Name)})
        case ast.AugAssign(target=ast.Name(id=name), op=sign, value=value) if name in names:
            names[name] = _operate(sign, names[name], _value(value, names))
        case ast.Expr(value=ast.Call(func=ast.Name(id="print"), args=[value])) if "answer" not in names:
            names[_PRINTED] = _value(value, names)
        case ast.Expr(value=ast.Call(func=ast.Name(id="print")) | ast.Constant()):
            pass
        case _:
            raise _NoResultError


def _value(node: ast.expr, names: Mapping[str, Fraction]) -> Fraction:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return _bounded(Fraction(str(number)))
        case ast.Name(id=name) if name in names:
            return names[name]
        case ast.UnaryOp(op=ast.USub() | ast.UAdd() as sign, operand=operand):
            return -_value(operand, names) if isinstance(sign, ast.USub) else _value(operand, names)
        case ast.BinOp(left=left, op=sign, right=right):
            return _operate(sign, _value(left, names), _value(right, names))
        case ast.Call(func=ast.Name(id="round"), args=[first, places], keywords=[]):
            decimals = int(_value(places, names))
            if abs(decimals) > MOST_PLACES:
                raise _NoResultError
            return _bounded(Fraction(round(_value(first, names), decimals)))
        case ast.Call(func=ast.Name(id=called), args=[_, *_] as args, keywords=[]) if called in _CALLS:
            return _bounded(Fraction(_CALLS[called](*(_value(each, names) for each in args))))
    raise _NoResultError


def _operate(sign: ast.operator, left: Fraction, right: Fraction) -> Fraction:
    if isinstance(sign, ast.Pow):
        bits = max(left.numerator.bit_length(), left.denominator.bit_length())
        if right.denominator != 1 or abs(right) * bits > MOST_BITS:
            raise _NoResultError
        return left ** int(right)
    if type(sign) not in _BINARY:
        raise _NoResultError
    return _bounded(_BINARY[type(sign)](left, right))


def _bounded(value: Fraction) -> Fraction:
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > MOST_BITS:
        raise _NoResultError
    return value
