"""What a guard asks of sizes, in plain words: ``x.shape[0] is divisible by 3`` for ``Eq(8*s77, 24*(s77//3))``.

torch writes one condition in many forms. Which it is shows in the numbers for which it holds.
"""

from __future__ import annotations

import functools
import itertools
import math
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sympy  # type: ignore[import-untyped]
from sympy.printing.precedence import PRECEDENCE  # type: ignore[import-untyped]
from sympy.printing.str import StrPrinter  # type: ignore[import-untyped]

from exportlint.torch_hooks.guards import user_words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from exportlint.torch_hooks.guards import Guard

    Values = Mapping[Any, int]

LEAST = 2  # the smallest size that torch does not treat apart
MOST_DIVISOR = 512  # the largest that is looked for
MOST_SYMBOLS = 3  # of a condition that is looked into
SAMPLES = 150  # of several sizes
LARGEST = 60  # of several sizes that are tried
LARGE = 10_000  # sizes above which nothing is small
ODD = (1, 3, 5, 7)
SPREAD = (2, 3, 4, 5, 7, 8, 11, 16, 31, 60, 300, LARGE)
SMALL_DIVISORS = (2, 3, 4, 8)  # tried also where the condition does not name them
# What Python calls a function of torch's.
CALLS = {"TruncToInt": "int", "FloorToInt": "math.floor", "CeilToInt": "math.ceil", "RoundToInt": "round"}
MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
DIVISIONS = ("Mod", "PythonMod", "FloorDiv", "CleanDiv")


@dataclass(frozen=True, slots=True)
class Multiple:
    """A condition that a product of sizes is a multiple of a number, or leaves a rest.

    Attributes:
        symbols: The sizes that are multiplied.
        divisor: The number.
        rest: What is left, 0 for a multiple.
    """

    symbols: tuple[Any, ...]
    divisor: int
    rest: int = 0

    def holds(self, values: Values) -> bool:
        """Whether it holds for these sizes."""
        return math.prod(values[symbol] for symbol in self.symbols) % self.divisor == self.rest


@dataclass(frozen=True, slots=True)
class Each:
    """A condition that each of several sizes is a multiple of a number of its own."""

    parts: tuple[Multiple, ...]

    @property
    def symbols(self) -> tuple[Any, ...]:
        """The sizes."""
        return tuple(symbol for part in self.parts for symbol in part.symbols)

    def holds(self, values: Values) -> bool:
        """Whether it holds for these sizes."""
        return all(part.holds(values) for part in self.parts)


@dataclass(frozen=True, slots=True)
class Divides:
    """A condition that one expression is a multiple of another."""

    multiple: Any
    divisor: Any

    def holds(self, values: Values) -> bool:
        """Whether it holds for these sizes."""
        return bool(_value(self.multiple, values) % _value(self.divisor, values) == 0)


def words(guard: Guard) -> str:
    """The condition in the user's names."""
    names = {symbol: user_words(source) for symbol, source in guard.sources.items()}
    printer = _Words(names)
    found = divisibility(guard.expression)
    if isinstance(found, Divides):
        return f"{printer.doprint(found.multiple)} is divisible by {printer.doprint(found.divisor)}"
    if found is None:
        return str(printer.doprint(guard.expression))
    parts = found.parts if isinstance(found, Each) else (found,)
    return " and ".join(sorted(_of_multiple(part, printer) for part in parts))


def _of_multiple(found: Multiple, printer: _Words) -> str:
    sizes = "*".join(sorted(printer.doprint(symbol) for symbol in found.symbols))
    if found.rest:
        return f"{sizes} leaves {found.rest} when divided by {found.divisor}"
    return f"{sizes} is divisible by {found.divisor}"


@functools.lru_cache(maxsize=1024)
def divisibility(expression: Any) -> Multiple | Each | Divides | None:
    """What is divided by what, where a condition says no more than that it leaves no rest, or the same always."""
    symbols = tuple(sorted(expression.free_symbols, key=str))
    if getattr(expression, "rel_op", None) != "==" or not 1 <= len(symbols) <= MOST_SYMBOLS:
        return None
    divisors = _divisors(expression)
    samples = list(_samples(symbols, divisors))
    truth = [(values, bool(known)) for values in samples if (known := value_or_none(expression, values)) is not None]
    if len({known for _, known in truth}) < 2:  # it always holds, or never
        return None
    for candidate in _candidates(expression, symbols, divisors, truth):
        if all(candidate.holds(values) == known for values, known in truth):
            return candidate
    return None


def sizes_of(guard: Guard) -> frozenset[str]:
    """The sizes that a condition is about, by torch's words: a factor that both sides have decides nothing."""
    found = divisibility(guard.expression)
    if isinstance(found, (Multiple, Each)):
        symbols = set(map(str, found.symbols))
    else:
        symbols = set(map(str, deciding(guard.expression)))
    return frozenset(source for symbol, source in guard.sources.items() if symbol in symbols)


@functools.lru_cache(maxsize=1024)
def deciding(expression: Any) -> tuple[Any, ...]:
    """The sizes on which it depends whether a condition holds; all where that cannot be said.

    The batch decides nothing in ``batch*(length // 4) != 0``.
    """
    symbols = tuple(sorted(expression.free_symbols, key=str))
    if getattr(expression, "rel_op", "==") == "==" or not 1 < len(symbols) <= MOST_SYMBOLS:
        return symbols
    chooses = random.Random(0)
    bases = [{symbol: chooses.choice(SPREAD) for symbol in symbols} for _ in range(SAMPLES // 3)]

    def decides(symbol: Any) -> bool:
        return any(len({value_or_none(expression, {**base, symbol: n}) for n in SPREAD}) > 1 for base in bases)

    return tuple(filter(decides, symbols)) or symbols


@functools.lru_cache(maxsize=1024)
def always(expression: Any) -> bool:
    """Whether a condition holds for all sizes from 2 on that are tried; only of those that such sizes can tell.

    torch keeps what it cannot prove, such as that a size that was padded to a multiple of 4 is one.
    """
    symbols = tuple(sorted(getattr(expression, "free_symbols", ()), key=str))
    if not symbols:
        return bool(expression)
    divides = any(type(node).__name__ in DIVISIONS for node in _nodes(expression))
    told = divides if len(symbols) == 1 else getattr(expression, "rel_op", "!=") != "!="
    if len(symbols) > MOST_SYMBOLS or not told:
        return False
    chooses = random.Random(0)
    large = ({symbol: chooses.randint(LARGE, 2 * LARGE) for symbol in symbols} for _ in range(SAMPLES))
    samples = itertools.chain(_samples(symbols, _divisors(expression)), large)
    return all(value_or_none(expression, values) is True for values in samples)


def obscurity(guard: Guard) -> int:
    """How far from plain the words for a condition are, to sort by."""
    found = divisibility(guard.expression)
    return 0 if isinstance(found, (Multiple, Each)) else 1 if isinstance(found, Divides) else 2


@functools.lru_cache(maxsize=1024)
def lasts(expression: Any) -> bool:
    """Whether a condition that is not an equation holds for all large sizes, as far as it can be evaluated."""
    symbols = tuple(sorted(expression.free_symbols, key=str))
    chooses = random.Random(0)
    samples = ({symbol: chooses.randint(LARGE, 2 * LARGE) for symbol in symbols} for _ in range(SAMPLES))
    return all(value_or_none(expression, values) is not False for values in samples)


def _candidates(
    expression: Any, symbols: tuple[Any, ...], divisors: list[int], truth: list[tuple[Values, bool]]
) -> Iterator[Multiple | Each | Divides]:
    first = next(values for values, known in truth if known)
    for count in range(1, len(symbols) + 1):
        for chosen in itertools.combinations(symbols, count):
            for divisor in divisors:
                rest = math.prod(first[symbol] for symbol in chosen) % divisor
                if not rest or count == 1:
                    yield Multiple(chosen, divisor, rest)
    if len(symbols) > 1:
        yield _each(symbols, divisors, [values for values, known in truth if known])
        yield from (Divides(*node.args) for node in _nodes(expression) if type(node).__name__ in DIVISIONS)


def _each(symbols: tuple[Any, ...], divisors: list[int], holding: list[Values]) -> Each:
    """By what each size is divisible wherever the condition holds; sizes that are by nothing are left out."""
    common = {symbol: math.gcd(*(values[symbol] for values in holding)) for symbol in symbols}
    most = {symbol: max((k for k in divisors if n % k == 0), default=1) for symbol, n in common.items()}
    return Each(tuple(Multiple((symbol,), divisor) for symbol, divisor in most.items() if divisor > 1))


def _nodes(expression: Any) -> Iterator[Any]:
    yield expression
    for part in expression.args:
        yield from _nodes(part)


def _divisors(expression: Any) -> list[int]:
    """The numbers by which the condition may divide, ascending."""
    numbers = {abs(int(n)) for n in expression.atoms() if getattr(n, "is_Integer", False)}
    found = {k for n in numbers for k in range(2, min(n, MOST_DIVISOR) + 1) if n % k == 0}
    return sorted(found.union(SMALL_DIVISORS))


def _samples(symbols: tuple[Any, ...], divisors: list[int]) -> Iterator[Values]:
    """Sizes to try a condition with; of several sizes those as well of which all, or all but one, are multiples."""
    most = max(divisors, default=0)
    if len(symbols) == 1:
        yield from ({symbols[0]: n} for n in range(LEAST, LEAST + max(2 * most, LARGEST)))
        return
    chooses = random.Random(0)
    yield from ({symbol: chooses.randint(LEAST, LARGEST) for symbol in symbols} for _ in range(SAMPLES))
    yield from ({symbol: most * chooses.randint(1, 5) for symbol in symbols} for _ in range(SAMPLES // 5))
    for divisor in divisors:
        yield from ({symbol: divisor * chooses.choice(ODD) for symbol in symbols} for _ in range(3))
        for one in symbols:
            yield {symbol: (divisor if symbol is one else most) * chooses.choice(ODD) for symbol in symbols}


_OPERATIONS: dict[str, Callable[..., Any]] = {
    "Add": lambda *args: sum(args),
    "Mul": lambda *args: math.prod(args),
    "Pow": lambda a, b: a**b,
    "Mod": lambda a, b: a % b,
    "PythonMod": lambda a, b: a % b,
    "FloorDiv": lambda a, b: a // b,
    "CleanDiv": lambda a, b: a // b,
    "CeilDiv": lambda a, b: -(-a // b),
    "IntTrueDiv": lambda a, b: a / b,
    "FloatTrueDiv": lambda a, b: a / b,
    "ToFloat": float,
    "Max": max,
    "Min": min,
    "BitwiseFn_bitwise_and": lambda a, b: a & b,
    "Equality": lambda a, b: a == b,
    "Unequality": lambda a, b: a != b,
    "StrictLessThan": lambda a, b: a < b,
    "StrictGreaterThan": lambda a, b: a > b,
    "LessThan": lambda a, b: a <= b,
    "GreaterThan": lambda a, b: a >= b,
    "TruncToInt": math.trunc,
    "FloorToInt": math.floor,
    "CeilToInt": math.ceil,
    "RoundToInt": round,
    "FloatPow": lambda a, b: a**b,
    "PowByNatural": lambda a, b: a**b,
    "OpaqueUnaryFn_sqrt": math.sqrt,
}


def _value(expression: Any, values: Values) -> Any:
    """The number, or the truth, of an expression.

    Raises:
        KeyError: When it holds an operation that is not known.
        ZeroDivisionError: When it has no value.
    """
    if expression in values:
        return values[expression]
    if not expression.args:
        return int(expression) if expression.is_Integer else float(expression)
    return _OPERATIONS[type(expression).__name__](*(_value(part, values) for part in expression.args))


def value_or_none(expression: Any, values: Values) -> Any:
    """The number, or the truth, of an expression for these sizes; ``None`` where it cannot be evaluated."""
    try:
        return _value(expression, values)
    except (ArithmeticError, KeyError, TypeError, ValueError):
        return None


def _without_minus(relation: Any) -> tuple[Any, str, Any] | None:
    """Both sides of an inequality, with what is subtracted on one side added to the other; ``None`` for others."""
    sides = [sympy.Add.make_args(side) for side in (relation.lhs, relation.rhs)]
    minus = [[part for part in parts if part.free_symbols and part.could_extract_minus_sign()] for parts in sides]
    if relation.rel_op not in MIRRORED or not any(minus):
        return None
    added, taken, number = sympy.Integer(0), sympy.Integer(0), sympy.Integer(0)
    for part in sympy.Add.make_args(sympy.expand(relation.lhs - relation.rhs)):
        if part.is_number:
            number += part
        elif part.could_extract_minus_sign():
            taken -= part
        else:
            added += part
    return (taken, MIRRORED[relation.rel_op], number) if not added else (added, relation.rel_op, taken - number)


class _Words(StrPrinter):  # type: ignore[misc]
    """Writes expressions as Python does, with other names for symbols."""

    printmethod = "_exportlint_words"  # not the forms that classes of torch have for themselves

    def __init__(self, names: Mapping[str, str]) -> None:
        super().__init__()
        self._names = names

    def _print_Symbol(self, symbol: Any) -> str:  # noqa: N802 - sympy finds it by the name of the class
        unknown = "a number that depends on the data" if str(symbol).startswith("u") else "a size"
        return self._names.get(str(symbol), unknown)

    def _print_Relational(self, relation: Any) -> str:  # noqa: N802
        turned = _without_minus(relation)
        if turned is not None:
            left, sign, right = turned
            return f"{self._print(left)} {sign} {self._print(right)}"
        return f"{self._print(relation.lhs)} {relation.rel_op} {self._print(relation.rhs)}"

    def _binary(self, sign: str, expression: Any) -> str:
        # A product in brackets, too, since Python reads a * b % c from the left.
        left, right = (self.parenthesize(part, PRECEDENCE["Mul"], strict=False) for part in expression.args)
        return f"{left} {sign} {right}"

    def _print_FloorDiv(self, expression: Any) -> str:  # noqa: N802
        return self._binary("//", expression)

    def _print_Mod(self, expression: Any) -> str:  # noqa: N802
        return self._binary("%", expression)

    def _print_IntTrueDiv(self, expression: Any) -> str:  # noqa: N802
        return self._binary("/", expression)

    def _print_FloatPow(self, expression: Any) -> str:  # noqa: N802
        left, right = (self.parenthesize(part, PRECEDENCE["Pow"], strict=False) for part in expression.args)
        return f"{left}**{right}"

    def _print_ToFloat(self, expression: Any) -> str:  # noqa: N802 - Python converts by itself
        return str(self._print(expression.args[0]))

    _print_Identity = _print_ToFloat  # noqa: N815

    def _print_Function(self, expression: Any) -> str:  # noqa: N802
        name = type(expression).__name__.removeprefix("OpaqueUnaryFn_")
        return f"{CALLS.get(name, name)}({', '.join(map(self._print, expression.args))})"

    def _print_LatticeOp(self, expression: Any) -> str:  # noqa: N802
        arguments = sorted(expression.args, key=lambda part: (not part.is_number, str(part)))
        return f"{type(expression).__name__.lower()}({', '.join(map(self._print, arguments))})"

    _print_PythonMod = _print_Mod  # noqa: N815
    _print_CleanDiv = _print_FloorDiv  # noqa: N815
    _print_FloatTrueDiv = _print_IntTrueDiv  # noqa: N815
    _print_PowByNatural = _print_FloatPow  # noqa: N815
