"""What the analysis saw happen in code that runs under capture: the interface between the analysis and the rules.

A rule names the events it wants and gets each with the place and the values that took part. Rules never walk trees,
so a better value analysis makes every rule better without a change to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from exportlint.source.values import Size, Tensor, options

if TYPE_CHECKING:
    from collections.abc import Mapping

    from exportlint.source.index import ClassEntry
    from exportlint.source.sites import Site
    from exportlint.source.values import Instance, Number, Value

Asker = Literal[
    "if",
    "while",
    "case",
    "assert",
    "conditional expression",
    "and/or",
    "not",
    "bool()",
    "sorted",
    "any",
    "all",
    "max",
    "min",
    "in",
    "comprehension",
]


@dataclass(frozen=True, slots=True)
class Event:
    """Base of all events; `site` is the node to report."""

    site: Site


@dataclass(frozen=True, slots=True)
class Asked(Event):
    """Python asked a value for its truth; `validates` where one answer does nothing but raise."""

    value: Value
    by: Asker
    validates: bool = False

    @property
    def text(self) -> str:
        """The code that asks."""
        return f"case {self.site.text}" if self.by == "case" else self.site.text


@dataclass(frozen=True, slots=True)
class Converted(Event):
    """A value was made into a Python number or text: ``int``, ``float``, ``len``, ``format``, ``math.sqrt``, ..."""

    value: Value
    to: str


@dataclass(frozen=True, slots=True)
class Called(Event):
    """A call.

    Attributes:
        name: Canonical dotted name of what lies outside the project, or ``.name`` of a method of `receiver`.
        receiver: What the method belongs to.
        arguments: Positional arguments.
        keywords: Keyword arguments by name.
        result: The value of the call.
        used: Whether anything is done with the result.
        caught: Whether an error of torch that the call raises is caught, and something else done instead.
    """

    name: str
    receiver: Value | None
    arguments: tuple[Value, ...]
    keywords: Mapping[str, Value]
    result: Value
    used: bool = True
    caught: bool = False


@dataclass(frozen=True, slots=True)
class Iterated(Event):
    """Python iterates over a value: a loop, a comprehension, ``zip``, an unpacking into names, one of them starred."""

    value: Value
    by: Literal["for", "comprehension", "zip", "unpacking", "starred"]


@dataclass(frozen=True, slots=True)
class Indexed(Event):
    """``value[index]``; `stored` where it is assigned to."""

    value: Value
    index: Value
    stored: bool = False


@dataclass(frozen=True, slots=True)
class Identified(Event):
    """Two values were compared by identity."""

    left: Value
    right: Value


@dataclass(frozen=True, slots=True)
class Met(Event):
    """A tensor that does not follow the inputs takes part in a computation with one that does."""

    stray: Tensor


@dataclass(frozen=True, slots=True)
class Parted(Event):
    """A test of where a tensor is decides what is computed; on a device of the type `kind`, it is something else.

    Attributes:
        kind: The type of device.
        lacking: The dtype of what is computed elsewhere that such a device has not; empty where it has all of them.
        casts: Whether nothing but dtypes is known to differ.
    """

    kind: str
    lacking: str = ""
    casts: bool = False


@dataclass(frozen=True, slots=True)
class Aligned(Event):
    """Broadcasting put the size of a dimension beside a constant one, so that they have to be equal."""

    size: Size
    constant: int


@dataclass(frozen=True, slots=True)
class Changed(Event):
    """State that outlives the call was changed: an attribute of an object, a global, or a container kept there.

    Attributes:
        owner: The object whose attribute it is; ``None`` for a global.
        name: Name of the attribute or global.
        value: The new value.
        old: The value before the call.
        how: ``set``, ``append`` (or another method that changes a container), ``item``, ``next`` of an iterator.
        origin: Where ``__init__`` binds the attribute.
        guard: The test of the ``if`` in which it happens.
        decides: Whether that ``if`` also returns, or binds a variable.
        of_function: Whether it is an attribute of a function.
    """

    owner: Instance | None
    name: str
    value: Value
    old: Value
    how: str
    origin: Site | None = None
    guard: Site | None = None
    decides: bool = False
    of_function: bool = False

    @property
    def is_sized(self) -> bool:
        """Whether it was made for a size: a size, or a table; what a call computed of its inputs is a state."""
        return any(
            isinstance(v, Size) or (isinstance(v, Tensor) and v.sized and not (v.fed and self.guard is None))
            for v in options(self.value)
        )


@dataclass(frozen=True, slots=True)
class Carried(Event):
    """A `Changed` state that a later call reads before it is set again; reported once the whole call is known.

    Attributes:
        change: The change.
        classes: The class whose attribute it is, and its bases in the project.
    """

    change: Changed
    classes: tuple[ClassEntry, ...] = ()


@dataclass(frozen=True, slots=True)
class Unwrapped(Event):
    """The ``.data`` of a tensor, read at `site`, is computed with or written to, or a tensor is bound to it there."""

    tensor: Tensor
    how: Literal["read", "written", "bound"]


@dataclass(frozen=True, slots=True)
class Moved(Event):
    """A module with parameters was moved or cast by its method called `how`, whatever the call is about.

    Attributes:
        how: The method.
        dtype: The dtype that it is surely cast to.
    """

    how: str
    dtype: str = ""


@dataclass(frozen=True, slots=True)
class Used(Event):
    """A number that was read at `site` takes part in a computation with tensors."""

    number: Number


@dataclass(frozen=True, slots=True)
class Branched(Event):
    """A branch of the function called `name` returns what it was given, or a view of it; or it `writes` to that."""

    name: str
    writes: bool = False


@dataclass(frozen=True, slots=True)
class Paired(Event):
    """Two results must be alike: of both branches of the function called `name`, or of a loop's body and its inputs."""

    name: str
    first: Value
    second: Value


@dataclass(frozen=True, slots=True)
class Entered(Event):
    """A context manager was entered."""

    value: Value


@dataclass(frozen=True, slots=True)
class Given(Event):
    """An example input of a model case, at the parameter of `forward` that takes it."""

    value: Value


@dataclass(frozen=True, slots=True)
class Returned(Event):
    """What the `forward` of a model case's model returns."""

    value: Value


@dataclass(frozen=True, slots=True)
class Defined(Event):
    """A module class under analysis, with what its ``__init__`` leaves on it.

    Attributes:
        cls: The class.
        attributes: What the attributes are.
        sites: Where they are bound.
        top: Whether it is the model, not a module in it.
    """

    cls: ClassEntry
    attributes: Mapping[str, Value]
    sites: Mapping[str, Site]
    top: bool = True
