"""What the analysis knows about the value of an expression.

Rules fire on knowledge: `Unknown` says nothing, and a join with it says nothing. Values are immutable and compare by
content, so that a call with the same arguments need not be analysed twice.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from exportlint.source.outside import OUTSIDE

if TYPE_CHECKING:
    import ast
    from collections.abc import Callable, Iterable

    from exportlint.source.by_device import Question
    from exportlint.source.index import ClassEntry, FunctionEntry, ModuleIndex
    from exportlint.source.sites import Site
    from exportlint.source.tree import FunctionNode

Placement = Literal["follows", "default", "literal", "unknown"]
_OPTIONS = 6
_DEEPEST = 6
_MOST = 1000
_BESIDE = 16


@dataclass(frozen=True, slots=True)
class Value:
    """Base of all values."""


@dataclass(frozen=True, slots=True)
class Unknown(Value):
    """Nothing is known."""


@dataclass(frozen=True, slots=True)
class Setting(Unknown):
    """Nothing is known but that the constructor was given it, or what it was made of: no call changes it."""


@dataclass(frozen=True, slots=True)
class Later(Unknown):
    """What an earlier call left in an attribute that one method binds: of the kind that this call binds it to."""


@dataclass(frozen=True, slots=True)
class LeftOut(Unknown):
    """Nothing is known but that a call may leave the argument out, so that it is ``None``."""


@dataclass(frozen=True, slots=True)
class Const(Value):
    """A Python constant, known exactly: a number, a string, a bool or ``None``."""

    value: Any

    def __eq__(self, other: object) -> bool:
        # 1, 1.0 and True are different constants here
        return isinstance(other, Const) and type(other.value) is type(self.value) and other.value == self.value

    def __hash__(self) -> int:
        return hash((type(self.value), self.value))


@dataclass(frozen=True, slots=True)
class Static(Value):
    """A Python value that no tensor decides, such as a configuration.

    Attributes:
        of: The name of its type, where known.
        given: Whether it was given to the constructor, or made of what was: no call changes it.
        asks: What it asks of where a tensor is.
    """

    of: str = ""
    given: bool = field(default=False, compare=False)
    asks: Question | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """Arithmetic with a constant: ``operation(number, operand)``, or the other way round where `reflected`."""

    operation: Callable[[Any, Any], Any]
    operand: Any
    reflected: bool = False

    def apply(self, number: Any) -> Any:
        """The result for a number.

        Raises:
            ArithmeticError: When Python raises it, as for a division by zero.
        """
        return self.operation(self.operand, number) if self.reflected else self.operation(number, self.operand)


@dataclass(frozen=True, slots=True)
class Size(Value):
    """A number derived from the size of a dimension.

    Attributes:
        dynamic: Whether the dimension varies between calls, where a model case tells.
        dim: Index of the dimension, where it is one dimension's size.
        rank: Number of dimensions of the tensor, where known.
        example: The size in the example call of a model case.
        other: The size in its second call.
        unbounded: Whether any size from 2 on was asked for, as far as is known.
        steps: The arithmetic with constants that made the number of the dimension's size, in order; ``None`` where
            that is not known.
        of: The sizes of a model case's inputs that it is made of, such as ``x.shape[0]``; empty where not all are
            known.
    """

    dynamic: bool | None = None
    dim: int | None = None
    rank: int | None = None
    example: int | None = field(default=None, compare=False)
    other: int | None = field(default=None, compare=False)
    unbounded: bool = False
    steps: tuple[Step, ...] | None = None
    of: frozenset[str] = field(default=frozenset(), compare=False)

    @property
    def opaque(self) -> Size:
        """The same size with arithmetic that is not followed."""
        return replace(self, steps=None)

    @property
    def varies(self) -> bool:
        """Whether the dimension varies between calls, as far as can be told.

        Without a model case, the first dimension and those in the middle are taken to vary; the last of three or
        fewer, and the second of four or more, hold features and do not.
        """
        if self.dynamic is not None or self.dim is None:
            return bool(self.dynamic)
        if self.rank is not None and self.rank >= 4:
            return self.dim % self.rank != 1
        last = self.rank is not None and self.dim == self.rank - 1
        return self.dim != -1 and not last


@dataclass(frozen=True, slots=True)
class Number(Value):
    """A Python number read out of a tensor, or a size that depends on a tensor's content.

    Attributes:
        how: What read it.
        site: Where it was read.
        real: Whether it surely is a float.
        given: Whether it was read out of an input itself, and not of what was computed.
    """

    how: str
    site: Site | None = field(default=None, compare=False)
    real: bool = False
    given: bool = False

    @property
    def outside(self) -> bool:
        """Whether it was read outside of the model: a clock, a random number, the environment."""
        return self.how in OUTSIDE


@dataclass(frozen=True, slots=True)
class Truth(Value):
    """A Python bool computed from a `Size` or a `Number`.

    Attributes:
        of: What it was computed from.
        against: What that was compared with.
        test: The comparison, where it is one with a constant.
        equality: Whether it asks for equality, or for the opposite.
    """

    of: Size | Number
    against: Value = field(default_factory=Unknown)
    test: Step | None = None
    equality: bool = False


@dataclass(frozen=True, slots=True)
class Device(Value):
    """A ``torch.device``; `name` is the text of a literal."""

    placement: Placement = "unknown"
    name: str = ""
    site: Site | None = None


@dataclass(frozen=True, slots=True)
class Tensor(Value):
    """A tensor.

    Attributes:
        placement: How it got its device: it follows the inputs, the default device, a literal.
        site: The expression that made it so, for ``default`` and ``literal``.
        kept: Where it lives between calls: ``parameter``, ``buffer``, ``attribute NAME``, ``global NAME``,
            ``default NAME``; empty for one that this call made.
        dims: Sizes of its dimensions, where known.
        scalar: Whether it has no dimension.
        counted: Whether the size of its first dimension depends on data.
        sized: Whether its own size or content was derived from the size of an input.
        fed: Whether its content was derived from the content of an input.
        boolean: Whether it holds bools.
        home: Where the tensor lives that gave it its place: ``attribute NAME``, ``global NAME``, ``default NAME``, with
            ``inside`` before it for one in a container; empty where this call made it.
        real: Whether it surely holds floating-point numbers.
        exact: Whether this call made it of a Python number, or of others such: a capture knows what it holds.
        full: Whether no dimension was taken away since it was an input, so that it is taken to have one.
        beside: Of several tensors elsewhere that it was computed of, those that did not give it its place.
        raw: Where ``.data`` gave it.
        dtype: What it was cast to, such as ``torch.float64``, by itself or by what it was computed of; empty where
            nothing is known.
        layered: Whether a layer with a weight took part in it, since it was detached last.
    """

    placement: Placement = "unknown"
    site: Site | None = None
    kept: str = ""
    dims: tuple[Value, ...] | None = None
    scalar: bool | None = None
    counted: bool = False
    sized: bool = False
    fed: bool = False
    boolean: bool = False
    home: str = ""
    real: bool = False
    exact: bool = False
    full: bool = False
    beside: tuple[Tensor, ...] = ()
    raw: Site | None = None
    layered: bool = field(default=False, compare=False)
    dtype: str = field(default="", compare=False)

    @property
    def strays(self) -> bool:
        """Whether it may not meet tensors that are elsewhere, as one without dimensions may."""
        if self.placement == "literal" and self.scalar is None:
            return self.fed and self.full and not self.home
        return self.placement in ("default", "literal") and self.scalar is False

    @property
    def all_strays(self) -> tuple[Tensor, ...]:
        """The tensor as one that may not meet others, and those beside it; each has to be moved by itself."""
        return (replace(self, beside=()), *self.beside) if self.strays else ()


@dataclass(frozen=True, slots=True)
class Array(Value):
    """A numpy array or number; `site` is where it was made of a tensor, or of a size.

    Attributes:
        site: Where it was made of what a tensor held.
        of_size: Whether it holds what a size was.
        whole: Whether it surely is an array, not a number.
        kept: Where it lives between calls, as for tensors.
    """

    site: Site | None = field(default=None, compare=False)
    of_size: bool = False
    whole: bool = False
    kept: str = ""


@dataclass(frozen=True, slots=True)
class Sequence(Value):
    """A list, tuple or set (`kind`), or an iterator: its `items` where each is known, else what any of them is.

    `dim` is the size that its length was derived from.
    """

    items: tuple[Value, ...] | None = None
    element: Value = field(default_factory=Unknown)
    kind: str = "list"
    dim: Value = field(default_factory=Unknown)
    kept: str = ""
    extent: tuple[int, int] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Forget what is inside where it nests too deeply: a value is a tree, however much its parts share."""
        depth, parts = measured((*(self.items or ()), self.element))
        if depth >= _DEEPEST or (depth and parts > _MOST):
            object.__setattr__(self, "items", None)
            object.__setattr__(self, "element", UNKNOWN)
            depth, parts = 0, 1
        object.__setattr__(self, "extent", (depth + 1, parts))

    @property
    def any(self) -> Value:
        """What any element is; nothing known for a mixture of tensors and other things."""
        found = join_all(self.items) if self.items else self.element
        mixed = any(isinstance(v, Tensor) for v in options(found)) and not is_tensor(found)
        return UNKNOWN if mixed else found


@dataclass(frozen=True, slots=True)
class Shape(Value):
    """``tensor.shape`` of a tensor whose number of dimensions is not known; `fixed` if no call changes it."""

    counted: bool = False
    fixed: bool = False

    def size(self, dim: int | None, rank: int | None = None) -> Value:
        """The size of a dimension."""
        if self.counted and dim == 0:
            return Number("size")
        return Size(False if self.fixed else None, dim, rank)


@dataclass(frozen=True, slots=True)
class Dict(Value):
    """A dictionary: values by constant key, and what any other value is."""

    items: tuple[tuple[Any, Value], ...] = ()
    element: Value = field(default_factory=Unknown)
    kept: str = ""
    extent: tuple[int, int] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Forget what is inside where it nests too deeply, as `Sequence` does."""
        depth, parts = measured((*(value for _, value in self.items), self.element))
        if depth >= _DEEPEST or (depth and parts > _MOST):
            object.__setattr__(self, "items", ())
            object.__setattr__(self, "element", UNKNOWN)
            depth, parts = 0, 1
        object.__setattr__(self, "extent", (depth + 1, parts))


@dataclass(frozen=True, slots=True)
class Instance(Value):
    """An object of a class of the project; its attributes are on the heap under `key`."""

    cls: ClassEntry
    key: int
    module: bool


@dataclass(frozen=True, slots=True)
class TorchModule(Value):
    """A module of ``torch.nn``, or a wrapper of modules.

    Attributes:
        name: Its class.
        parts: The modules in a container or wrapper.
        unknown_to: The plain list that alone holds it.
        bare: Whether it may have been made without the parameters that its class has.
        site: Where a wrapper was made.
    """

    name: str
    parts: tuple[Value, ...] = ()
    unknown_to: str = ""
    bare: bool = False
    site: Site | None = field(default=None, compare=False)
    extent: tuple[int, int] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Forget the parts where they nest too deeply, as `Sequence` does."""
        depth, parts = measured(self.parts)
        if depth >= _DEEPEST or (depth and parts > _MOST):
            object.__setattr__(self, "parts", ())
            depth, parts = 0, 0
        object.__setattr__(self, "extent", (depth + 1, parts))


@dataclass(frozen=True, slots=True)
class StateDict(Value):
    """``module.state_dict()``."""

    of: Value


@dataclass(frozen=True, slots=True)
class Loaded(Value):
    """What ``torch.load`` returned at `site`, or what is in it.

    Attributes:
        site: The call.
        mapped: Whether the call says where to put tensors, or loads what the same function saved.
        restricted: Whether it says whether more than tensors and plain containers may be in the file, or loads what
            the same function saved.
    """

    site: Site
    mapped: bool
    restricted: bool


@dataclass(frozen=True, slots=True, eq=False)
class Closure:
    """Where a function was defined: its file, and the variables around it as they were then.

    It is `lasting` where no call of the model defined the function: what it leaves there, the next call finds.
    """

    module: ModuleIndex
    variables: dict[str, Value]
    cls: ClassEntry | None = None
    lasting: bool = False


@dataclass(frozen=True, slots=True)
class Function(Value):
    """A function or lambda of the project, bound to `owner` if it is a method."""

    node: FunctionNode | ast.Lambda = field(hash=False)
    closure: Closure
    owner: Value | None = None
    entry: FunctionEntry | None = None

    def __hash__(self) -> int:
        return hash((id(self.node), id(self.closure), self.owner))  # a lambda has a closure for each call around it

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Function)
            and other.node is self.node
            and other.closure is self.closure
            and other.owner == self.owner
        )


@dataclass(frozen=True, slots=True)
class Partial(Value):
    """``functools.partial`` of a function, with the arguments that it was given; of a `method`, ``partialmethod``."""

    callee: Value
    positional: tuple[Value, ...] = ()
    keywords: tuple[tuple[str, Value], ...] = ()
    method: bool = False


@dataclass(frozen=True, slots=True)
class Class(Value):
    """A class of the project."""

    entry: ClassEntry


@dataclass(frozen=True, slots=True)
class Module(Value):
    """An imported file of the project."""

    index: ModuleIndex


@dataclass(frozen=True, slots=True)
class External(Value):
    """Something outside of the project, by its canonical dotted name; `owner` is what a method is bound to."""

    name: str


@dataclass(frozen=True, slots=True)
class Method(Value):
    """A method of a value that is no object of the project: a tensor's, a list's, a string's."""

    receiver: Value
    name: str


@dataclass(frozen=True, slots=True)
class Super(Value):
    """``super()`` in a method of `cls`."""

    cls: ClassEntry
    instance: Value


@dataclass(frozen=True, slots=True)
class Union(Value):
    """One of several values."""

    options: tuple[Value, ...]


COMPILED = "torch._dynamo.OptimizedModule"
ANY_DTYPE = "any dtype"
"""What a tensor was cast to, where that is not written down."""
PARALLEL = ("torch.nn.DataParallel", "torch.nn.parallel.DataParallel", "torch.nn.parallel.DistributedDataParallel")
"""Wrappers that run a module on several devices; the module is their ``module``."""
SCRIPTED, TRACED = "torch.jit.ScriptModule", "torch.jit.TracedModule"
"""Names of modules that ``torch.jit.script`` or ``torch.jit.load`` made, and ``torch.jit.trace``."""
UNREGISTERED = ("collections.UserDict", "collections.UserList", "types.SimpleNamespace")
"""Classes outside of the project that torch.export does not flatten: a `Static` of their name is an object of one."""
SIZE_TEXT = Static("text of a size")
"""What ``str`` makes of a size that varies: while a model is captured, the name of a symbol."""
UNKNOWN = Unknown()
SETTING = Setting()
LATER = Later()
LEFT_OUT = LeftOut()
NONE = Const(None)
INSIDE = "inside "
"""Before the place where a container lives, for the home of what is in it."""
NOTHING = Union(())
"""No value at all: what a call that never returns yields."""


def settled(value: Value, home: str, site: Site | None = None) -> Value:
    """The value as one that was made before the call: what gave a tensor its place is where it lives."""
    if isinstance(value, Tensor) and value.exact:
        value = replace(value, exact=False)
    if isinstance(value, Tensor) and value.placement in ("default", "literal"):
        if not home.startswith(INSIDE):
            return replace(value, home=home, site=site or value.site, beside=())  # it is moved where it lives
        return value if value.home else replace(value, home=home, kept=value.kept or home)
    inside = home if home.startswith(INSIDE) else INSIDE + home
    if isinstance(value, Sequence) and value.kind != "iterator":
        items = None if value.items is None else tuple(settled(v, inside) for v in value.items)
        return replace(value, items=items, element=settled(value.element, inside))
    if isinstance(value, Dict):
        entries = tuple((k, settled(v, inside)) for k, v in value.items)
        return replace(value, items=entries, element=settled(value.element, inside))
    if isinstance(value, Union):
        return join_all(tuple(settled(v, home, site) for v in value.options))
    return value


def measured(values: tuple[Value, ...]) -> tuple[int, int]:
    """How deeply containers nest in the values, and how many values that is with all that is inside."""
    depth, parts = 0, len(values)
    for value in values:
        for option in options(value):
            if isinstance(option, (Sequence, Dict, TorchModule)):
                depth = max(depth, option.extent[0])
                parts += option.extent[1]
    return depth, parts


def options(value: Value) -> tuple[Value, ...]:
    """The values that this may be."""
    return value.options if isinstance(value, Union) else (value,)


def join(left: Value, right: Value) -> Value:
    """What is known of a value that is one of the two."""
    if left == right:
        return right if isinstance(left, Static) and left.given else left
    for known, other in ((left, right), (right, left)):
        if isinstance(other, Later):
            return other if known == NONE else known
    if isinstance(left, Unknown) or isinstance(right, Unknown):
        return SETTING if is_setting(left) and is_setting(right) else UNKNOWN
    merged: list[Value] = []
    for option in (*options(left), *options(right)):
        for i, known in enumerate(merged):
            both = _merge(known, option)
            if both is not None:
                merged[i] = both
                break
        else:
            merged.append(option)
    if not merged:
        return NOTHING
    if len(merged) > _OPTIONS:
        return UNKNOWN
    return merged[0] if len(merged) == 1 else Union(tuple(merged))


def is_setting(value: Value) -> bool:
    """Whether no call decides the value: a constant, what the constructor was given, or what was made of these."""
    return all(
        isinstance(v, (Setting, Const))
        or (isinstance(v, Static) and v.given)
        or (isinstance(v, Sequence) and all(is_setting(part) for part in v.items or (v.element,)))
        for v in options(value)
    )


def join_all(values: tuple[Value, ...]) -> Value:
    """What is known of a value that is one of these."""
    result = values[0] if values else UNKNOWN
    for value in values[1:]:
        result = join(result, value)
    return result


def _merge(left: Value, right: Value) -> Value | None:
    """One value for two of a kind; ``None`` if they must be kept apart."""
    if isinstance(left, Size) and isinstance(right, Size):
        return _merge_sizes(left, right)
    if left == right and not isinstance(left, Static):
        return left
    if isinstance(left, Static) and left == right and left.given == right.given:
        return left
    if isinstance(left, (Const, Static)) and isinstance(right, (Const, Static)):
        return None if NONE in (left, right) else Static(given=is_setting(left) and is_setting(right))
    merge = _MERGERS.get(type(left)) if type(left) is type(right) else None
    return None if merge is None else merge(left, right)


def _merge_sizes(left: Size, right: Size) -> Value:
    if left == right and left.of == right.of:
        return left
    merged = left if left == right else Size(left.dynamic if left.dynamic == right.dynamic else None)
    return replace(merged, of=made_of((left, right)))


def made_of(parts: Iterable[Size]) -> frozenset[str]:
    """The inputs' sizes that several sizes are made of; none where they are not known of each."""
    known = [part.of for part in parts]
    return frozenset().union(*known) if all(known) else frozenset()


def _merge_sequences(left: Sequence, right: Sequence) -> Value | None:
    if left.kind != right.kind:
        return None
    if left.items is not None and right.items is not None and len(left.items) == len(right.items):
        items = tuple(join(a, b) for a, b in zip(left.items, right.items, strict=True))
        return Sequence(items, kind=left.kind, kept=left.kept if left.kept == right.kept else "")
    filled = tuple(each.any for each in (left, right) if each.items != ())
    return Sequence(None, join_all(filled), left.kind, kept=left.kept if left.kept == right.kept else "")


def _merge_dicts(left: Dict, right: Dict) -> Value:
    return Dict(element=UNKNOWN, kept=left.kept if left.kept == right.kept else "")


def _first(left: Value, right: Value) -> Value:
    return left


def _merge_tensors(left: Tensor, right: Tensor) -> Tensor:
    made = left.placement == "default" or (left.placement == "literal" and len({left.kept, right.kept, ""}) < 3)
    same = left.placement == right.placement and (left.site == right.site or (made and left.home == right.home))
    beside = one_of_each((*left.all_strays, *left.beside, *right.all_strays, *right.beside)) if same else ()
    return replace(
        left,
        placement=left.placement if same else "unknown",
        site=left.site if same else None,
        kept=left.kept if left.kept == right.kept else "",
        dims=left.dims if left.dims == right.dims else None,
        scalar=left.scalar if left.scalar == right.scalar else None,
        counted=left.counted and right.counted,
        sized=left.sized or right.sized,
        fed=left.fed and right.fed,
        boolean=left.boolean and right.boolean,
        real=left.real and right.real,
        exact=left.exact and right.exact,
        full=left.full and right.full,
        raw=left.raw if left.raw == right.raw else None,
        beside=tuple(stray for stray in beside if (stray.site, stray.home) != (left.site, left.home)),
    )


def one_of_each(strays: Iterable[Tensor]) -> tuple[Tensor, ...]:
    """The tensors without those that were made at one place with another; of very many, the first."""
    by_place = dict[tuple[object, str], Tensor]()
    for stray in strays:
        by_place.setdefault((stray.site, stray.home), stray)
    return tuple(by_place.values())[:_BESIDE]


def _merge_devices(left: Device, right: Device) -> Device | None:
    """The same device that is written down in two places."""
    return left if (left.placement, left.name) == (right.placement, right.name) else None


_MERGERS: dict[type[Value], Callable[[Any, Any], Value | None]] = {
    Tensor: _merge_tensors,
    Device: _merge_devices,
    Number: _first,
    Array: _first,
    Sequence: _merge_sequences,
    Dict: _merge_dicts,
}


def tensors(values: tuple[Value, ...]) -> list[Tensor]:
    """The tensors among the values, and inside of the sequences among them."""
    found: list[Tensor] = []
    for value in values:
        if isinstance(value, Tensor):
            found.append(value)
        elif isinstance(value, Sequence):
            found += tensors(value.items if value.items is not None else (value.element,))
    return found


def sizes(values: tuple[Value, ...]) -> list[Size]:
    """The sizes among the values, and inside of the sequences among them."""
    found: list[Size] = []
    for value in values:
        if isinstance(value, Size):
            found.append(value)
        elif isinstance(value, Shape):
            found.append(Size())
        elif isinstance(value, Sequence):
            found += sizes(value.items if value.items is not None else (value.element,))
    return found


def is_exact(value: Value) -> bool:
    """Whether the value is a tensor of which a capture knows what it holds."""
    return isinstance(value, Tensor) and value.exact and not value.kept


def is_module(value: Value | None) -> bool:
    """Whether the value is a module, of ``torch.nn`` or of the project."""
    return isinstance(value, TorchModule) or (isinstance(value, Instance) and value.module)


def is_state(value: Value) -> bool:
    """Whether the value is what a module registers: a parameter, a buffer, another module."""
    return value.kept in ("parameter", "buffer") if isinstance(value, Tensor) else is_module(value)


def is_tensor(value: Value) -> bool:
    """Whether the value is a tensor, or a tensor or ``None``."""
    found = options(value)
    return any(isinstance(v, Tensor) for v in found) and all(isinstance(v, Tensor) or v == NONE for v in found)


def the_tensor(value: Value) -> Tensor | None:
    """The tensor that the value is, if it is one whenever it is not ``None``."""
    if not is_tensor(value):
        return None
    return next(v for v in options(value) if isinstance(v, Tensor))
