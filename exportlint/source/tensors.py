"""What torch's functions and tensor methods make of what they are given."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from exportlint.source import at_hand
from exportlint.source.dtypes import CASTS, DTYPES, WHOLE
from exportlint.source.events import Aligned, Converted, Met, Unwrapped, Used
from exportlint.source.facts import facts
from exportlint.source.parameters import is_input
from exportlint.source.values import (
    ANY_DTYPE,
    NONE,
    UNKNOWN,
    Array,
    Const,
    Device,
    Dict,
    External,
    Method,
    Number,
    Placement,
    Sequence,
    Shape,
    Size,
    Static,
    Tensor,
    Union,
    Unknown,
    Value,
    is_exact,
    one_of_each,
    options,
    sizes,
    tensors,
)

if TYPE_CHECKING:
    from exportlint.source.facts import Operator
    from exportlint.source.interpreter import Interpreter
    from exportlint.source.parameters import Arguments
    from exportlint.source.sites import Site
    from exportlint.source.state import State

# These look at a tensor without computing with it, or move it: its device need not be the other's.
_NO_MEETING = frozenset({
    "to", "type", "type_as", "expand_as", "view_as", "reshape_as", "copy_", "result_type", "can_cast", "index_put_",
    "is_same_size", "promote_types", "set_", "size", "numel", "dim", "index_put", "tensor_split", "ctc_loss",
})  # fmt: skip
# The result holds bools.
_BOOLEAN = frozenset({
    "bool", "logical_not", "logical_and", "logical_or", "logical_xor", "isnan", "isinf", "isfinite", "isclose", "isin",
    "eq", "ne", "lt", "gt", "le", "ge",
})  # fmt: skip
# The result holds bools if the operand does; of bytes, `any` and `all` make bytes.
_STAYS_BOOLEAN = frozenset({
    "any", "all", "view", "reshape", "flatten", "ravel", "squeeze", "unsqueeze", "transpose", "permute", "expand",
})  # fmt: skip
# The result holds floating-point numbers, whatever the operands hold.
_REAL = frozenset({
    "mean", "std", "var", "norm", "exp", "log", "log1p", "log2", "sqrt", "rsqrt", "reciprocal", "sigmoid", "tanh",
    "softmax", "log_softmax", "logsumexp", "sin", "cos", "erf", "float", "half", "double", "bfloat16",
})  # fmt: skip
# The result holds floating-point numbers if the operands do.
_STAYS_REAL = frozenset({
    "sum", "prod", "cumsum", "max", "min", "amax", "amin", "median", "abs", "clamp", "relu", "add", "sub", "mul", "div",
    "pow", "square", "squeeze", "unsqueeze", "view", "reshape", "flatten", "transpose", "permute", "cat", "stack",
})  # fmt: skip
# Without a dtype, what is filled with no numbers of its own has the default dtype.
_FILLED = frozenset({"ones", "zeros", "empty", "rand", "randn"})
# The result has a dimension if the operands have.
_KEEPS_FULL = frozenset({
    "add", "sub", "mul", "div", "pow", "clamp", "softmax", "log_softmax", "cumsum", "cat", "concat", "stack",
    "transpose", "permute", "flatten", "unsqueeze",
})  # fmt: skip
# The result may have no dimension where the operands have some.
_REDUCES = frozenset({
    "cross_entropy", "binary_cross_entropy", "binary_cross_entropy_with_logits", "kl_div", "dot", "vdot", "inner",
    "trace", "dist", "det", "logdet", "select", "squeeze", "einsum",
})  # fmt: skip
# The result has as many dimensions as the numbers that it is given.
_SHAPED = frozenset({"zeros", "ones", "empty", "rand", "randn", "full", "randint", "view", "reshape", "expand"})
# The result may have dimensions where the operand has none.
_ADDS = frozenset({
    "expand", "expand_as", "broadcast_to", "view", "view_as", "reshape", "reshape_as", "unsqueeze", "repeat", "tile",
    "atleast_1d", "atleast_2d", "atleast_3d", "flatten", "ravel", "unflatten",
})  # fmt: skip
# The data argument decides whether there is a dimension at all.
_DATA = frozenset({"tensor", "as_tensor", "asarray", "scalar_tensor", "from_numpy", "Tensor"})


def combine(it: Interpreter, node: ast.AST, values: tuple[Value, ...], state: State) -> Tensor:
    """The tensor computed from these values together; reports tensors that meet others on their devices."""
    use(it, values)
    found = [t for value in values for t in tensors(options(value))]
    unwrap(it, found)
    strays = one_of_each(stray for t in found for stray in t.all_strays)
    follows = any(t.placement == "follows" for t in found)
    if follows:
        for stray in strays:
            it.emit(Met(stray.site or it.site(node, state), stray))
    placement, site = _placement(found, strays, follows)
    scalars = {t.scalar for t in found}
    return Tensor(
        placement,
        site,
        dims=_broadcast(found),
        scalar=False if False in scalars else True if scalars == {True} else None,
        counted=any(t.counted for t in found),
        sized=any(t.sized for t in found) or bool(sizes(values)),
        fed=any(t.fed for t in found),
        real=any(t.real for t in found),
        layered=any(t.layered for t in found),
        dtype=_common(found, values),
        exact=bool(found) and all(map(_is_known, (o for value in values for o in options(value)))),
        home="" if follows or not found else (strays[0] if strays else found[0]).home,
        full=any(t.full for t in found),
        beside=strays[1:] if placement in ("default", "literal") else (),
    )


def _common(found: list[Tensor], values: tuple[Value, ...]) -> str:
    """The dtype of what is computed of these values, where all tensors among them have one, and no float is."""
    known = {t.dtype for t in found if not t.boolean}
    floats = any(isinstance(getattr(value, "value", None), float) for value in values)
    return known.pop() if len(known) == 1 and not floats else ""


def put_into(it: Interpreter, node: ast.AST, target: Tensor, value: Value, state: State) -> None:
    """Report a tensor without dimensions that takes, in place, what follows the inputs: it may only meet that."""
    held = target.placement in ("default", "literal") and target.scalar is True
    if held and any(t.placement == "follows" for t in tensors(options(value))):
        it.emit(Met(target.site or it.site(node, state), target))


def put_by_method(it: Interpreter, node: ast.AST, callee: Method, given: Arguments, state: State) -> None:
    """Report the same of a method that works in place; ``copy_`` moves what it is given."""
    if isinstance(callee.receiver, Tensor) and callee.name not in _NO_MEETING:
        for value in given.all:
            put_into(it, node, callee.receiver, value, state)


def align(it: Interpreter, node: ast.AST, pair: tuple[Value, Value], state: State) -> None:
    """Report the sizes of two tensors that an operator computes with, where one varies and the other is a constant."""
    left, right = (value.dims or () if isinstance(value, Tensor) else () for value in pair)
    for beside in zip(reversed(left), reversed(right), strict=False):
        for size, other in (beside, beside[::-1]):
            constant = _constant(other)
            varies = isinstance(size, Size) and size.dynamic is True and size.steps == ()
            if varies and constant not in (None, 1) and constant == size.example:  # type: ignore[attr-defined]
                it.emit(Aligned(it.site(node, state), size, constant))  # type: ignore[arg-type]


def multiplied(left: Value, right: Value) -> tuple[Value, ...] | None:
    """The dimensions of the product of a tensor and a matrix."""
    dims = [value.dims if isinstance(value, Tensor) else None for value in (left, right)]
    if dims[0] is None or dims[1] is None or len(dims[0]) < 2 or len(dims[1]) != 2:
        return None
    return (*dims[0][:-1], dims[1][-1])


def _constant(size: Value) -> int | None:
    """The number that a size is in every call."""
    if isinstance(size, Size):
        return size.example if size.dynamic is False and size.steps == () else None
    return size.value if isinstance(size, Const) and type(size.value) is int else None


def _is_known(value: Value) -> bool:
    """Whether a capture knows the number that the value is, or that it holds."""
    return is_exact(value) or isinstance(value, Const) or (isinstance(value, Static) and value.of in ("int", "float"))


def use(it: Interpreter, values: tuple[Value, ...]) -> None:
    """Report numbers that take part in a computation with tensors."""
    for value in values:
        for option in options(value):
            if isinstance(option, Number) and option.site is not None:
                it.emit(Used(option.site, option))


def unwrap(it: Interpreter, found: list[Tensor]) -> None:
    """Report tensors that ``.data`` gave and that something is computed with."""
    for tensor in found:
        if tensor.raw is not None:
            it.emit(Unwrapped(tensor.raw, tensor, "read"))


def written(it: Interpreter, tensor: Tensor) -> Tensor:
    """Report a write to a tensor that ``.data`` gave; what the write returns is told no more."""
    if tensor.raw is None:
        return tensor
    it.emit(Unwrapped(tensor.raw, tensor, "written"))
    return replace(tensor, raw=None)


def _placement(found: list[Tensor], strays: tuple[Tensor, ...], follows: bool) -> tuple[Placement, Site | None]:
    if follows:
        return "follows", None
    if any(t.placement == "unknown" for t in found) or not found:
        return "unknown", None
    chosen = strays[0] if strays else found[0]
    return chosen.placement, chosen.site


def _broadcast(found: list[Tensor]) -> tuple[Value, ...] | None:
    known = [t.dims for t in found if t.scalar is not True]
    if not known or any(dims is None for dims in known):
        return None
    longest = max((dims for dims in known if dims is not None), key=len)
    result = list(longest)
    for dims in known:
        for i, dim in enumerate(reversed(dims or ()), 1):
            if isinstance(dim, Size) and not isinstance(result[-i], Size):
                result[-i] = dim
    return tuple(result)


def call_function(it: Interpreter, node: ast.AST, name: str, arguments: Arguments, state: State) -> Value:
    """The result of a function of torch; nothing known where the tables do not hold it."""
    known = facts()
    short = name.rpartition(".")[2]
    if name.startswith("torch.cuda.") and f"torch.{short}" in known.constructors:  # torch.cuda.FloatTensor
        return _on(_made(it, node, short, arguments, state), Const("cuda"), it, node, state)
    if name in known.constructors or short == "from_numpy":
        return _made(it, node, short, arguments, state)
    operator = known.functions.get(name)
    if operator is None:
        return UNKNOWN
    arguments = _computed_with(short, arguments)
    given = [t for value in arguments.all for t in tensors(options(value))]
    use(it, arguments.all)
    like = short.endswith("_like")  # of what is not known, it is on that device nevertheless
    if operator.factory or (operator.device and not given and not like):
        return _made(it, node, short, arguments, state)
    if operator.returns in ("bool", "number"):
        return _python_number(it, node, short, given, state)
    made = combine(it, node, () if short in _NO_MEETING else arguments.all, state)
    made = replace(made, real=short in _REAL or (made.real and short in _STAYS_REAL))
    made = replace(made, boolean=_is_boolean(short, given[0] if given else None))
    if "dtype" in arguments.keywords or short in WHOLE:
        made = replace(made, dtype=WHOLE.get(short) or _cast_to(replace(arguments, positional=()), ""))
    made = _sized(made, short, given, arguments)
    return _results(operator, _on(made, arguments.get(-1, "device"), it, node, state), short, arguments, given)


def _computed_with(short: str, arguments: Arguments) -> Arguments:
    """The arguments without one that takes a place and is not looked at."""
    separate = arguments.keywords.get("use_separate_proj_weight") == Const(value=True)
    if short != "multi_head_attention_forward" or not separate:
        return arguments
    kept = {name: value for name, value in arguments.keywords.items() if name != "in_proj_weight"}
    return replace(arguments, positional=(*arguments.positional[:5], UNKNOWN, *arguments.positional[6:]), keywords=kept)


def _is_boolean(name: str, first: Tensor | None) -> bool:
    """Whether what a function or method makes of its first tensor holds bools."""
    return name in _BOOLEAN or (name in _STAYS_BOOLEAN and first is not None and first.boolean)


def _python_number(it: Interpreter, node: ast.AST, short: str, given: list[Tensor], state: State) -> Value:
    if short in facts().data_dependent_value:
        return Number(short, it.site(node, state))
    if short == "numel":
        return Number("numel") if given and given[0].counted else Size()
    return Static()


def _sized(made: Tensor, short: str, given: list[Tensor], arguments: Arguments) -> Tensor:
    """What the result's size depends on, and what is left of the dimensions and of what a capture knows of it."""
    known = facts()
    same = short in known.keeps_shape
    made = replace(made, exact=made.exact and same, full=made.full and (same or short in _KEEPS_FULL))
    first = given[0] if given else Tensor()
    if short in known.data_dependent_size and not (short == "where" and len(arguments.positional) > 1):
        plain = short == "repeat_interleave" and not (len(given) > 1 and given[1].fed)
        plain = plain or (short == "one_hot" and len(arguments.all) > 1)
        return replace(made, counted=not plain, scalar=False, dims=None)
    if short in known.reductions:
        return _reduced(made, first, arguments)
    if short in known.keeps_shape:
        return replace(made, dims=first.dims, scalar=first.scalar, counted=first.counted)
    if short.endswith("_like"):
        return replace(made, dims=first.dims, scalar=first.scalar, counted=first.counted, fed=False)
    if short in ("cat", "concat", "stack", "where"):
        return replace(made, dims=None)
    open_ended = short in _ADDS if made.scalar else short in _REDUCES or short.endswith("_loss")
    return replace(made, dims=None, counted=False, scalar=None if open_ended else made.scalar)


def _reduced(made: Tensor, first: Tensor, arguments: Arguments) -> Tensor:
    """A reduction over one dimension, or over all of them."""
    if len(arguments.all) <= 1:
        return replace(made, scalar=True, dims=(), counted=False)
    dim = arguments.get(1, "dim")
    made = replace(made, scalar=None, dims=None, counted=False)
    number = dim.value if isinstance(dim, Const) and isinstance(dim.value, int) else None
    if first.dims is None or number is None or not -len(first.dims) <= number < len(first.dims):
        return made
    left = list(first.dims)
    if arguments.get(2, "keepdim") in (None, Const(False)):
        del left[number]
    return replace(made, dims=tuple(left), scalar=not left)


def _results(operator: Operator, made: Tensor, short: str, arguments: Arguments, given: list[Tensor]) -> Value:
    """One tensor, or several."""
    several = operator.returns == "tensors"
    if operator.returns == "tensor|tensors":
        second = arguments.get(1)
        several = "dim" in arguments.keywords or arguments.get(-1, "as_tuple") == Const(True)
        several = several or (isinstance(second, (Const, Static)) and second != NONE)
        several = several or (short == "where" and len(arguments.all) == 1)
    if short in ("unique", "unique_consecutive"):
        several = any(keyword.startswith("return_") for keyword in arguments.keywords)
    if several:
        made = replace(made, real=False)  # of some, indices are among them
        split = short in ("split", "chunk", "unbind", "tensor_split", "split_with_sizes")
        dim = dimension(given[0] if given else None, arguments, 1 if short == "unbind" else 2) if split else UNKNOWN
        return Sequence(None, made, "tuple", dim if short in ("unbind", "split") else UNKNOWN)
    return made if operator.returns.startswith("tensor") else UNKNOWN


def dimension(tensor: Tensor | None, arguments: Arguments, position: int) -> Value:
    """The size of the dimension that the argument at this position, or ``dim``, names; dimension 0 without it."""
    given = arguments.get(position, "dim")
    if given is None:
        given = Const(0)
    if not isinstance(given, Const) or not isinstance(given.value, int):
        return UNKNOWN
    return size_of(tensor, given.value)


def size_of(tensor: Tensor | None, dim: int) -> Value:
    """The size of a dimension."""
    if tensor is not None and tensor.counted and dim == 0:
        return Number("size")
    if tensor is not None and tensor.dims is not None:
        return tensor.dims[dim] if -len(tensor.dims) <= dim < len(tensor.dims) else UNKNOWN
    return Size(False if _is_fixed(tensor) else None, dim)


def _is_fixed(tensor: Tensor | None) -> bool:
    """Whether a tensor was made before the call, and is as long in each."""
    return tensor is not None and (tensor.kept == "parameter" or bool(tensor.kept and tensor.home and not tensor.sized))


def call_method(
    it: Interpreter, node: ast.AST, receiver: Tensor, name: str, arguments: Arguments, state: State
) -> Value:
    """The result of a method of a tensor."""
    if name == "clone":
        unwrap(it, [receiver])
        receiver = replace(receiver, raw=None)
    special = _SPECIAL.get(name)
    if special is not None:
        return special(it, node, receiver, arguments, state)
    operator = facts().methods.get(name)
    if operator is None:
        return UNKNOWN
    if operator.returns in ("bool", "number"):
        data = name in facts().data_dependent_value and not is_exact(receiver)
        if not data:
            return Static()
        of_input = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and is_input(it, node.func.value)
        return Number(name, it.site(node, state), receiver.real and name == "item", of_input)
    if operator.device or name.startswith("new_"):
        use(it, arguments.all)
        return _new(it, node, (receiver, name), arguments, state)
    others = tuple(arguments.all) if name not in _NO_MEETING else ()
    made = replace(combine(it, node, (receiver, *others), state), boolean=_is_boolean(name, receiver))
    made = replace(made, real=name in _REAL or (made.real and name in _STAYS_REAL))
    made = _sized(made, name, [receiver], _with(receiver, arguments))
    if name in CASTS or name in WHOLE:
        made = replace(made, dtype=CASTS.get(name) or WHOLE[name])
    if name in ("view", "reshape"):
        made = replace(made, dims=_requested(receiver, arguments))
    if name in ("view", "squeeze", "flatten", "reshape"):
        made = replace(made, counted=receiver.counted)
    return _results(operator, made, name, _with(receiver, arguments), [receiver])


def _new(it: Interpreter, node: ast.AST, call: tuple[Tensor, str], arguments: Arguments, state: State) -> Value:
    """A method that takes a device, ``new_zeros`` and its like."""
    receiver, name = call
    unwrap(it, [receiver])
    new = name.startswith("new_")
    made = replace(receiver, kept="", raw=None, scalar=False if new else receiver.scalar, dims=None, counted=False)
    made = replace(
        made, real=False, full=False, fed=receiver.fed and not new, sized=receiver.sized or bool(sizes(arguments.all))
    )
    return _on(made, arguments.get(-1, "device"), it, node, state)


def _with(receiver: Tensor, arguments: Arguments) -> Arguments:
    return replace(arguments, positional=(receiver, *arguments.positional))


def _requested(receiver: Tensor, arguments: Arguments) -> tuple[Value, ...] | None:
    wanted = arguments.positional
    if len(wanted) == 1 and isinstance(wanted[0], Sequence):
        wanted = wanted[0].items or ()
    if not wanted or any(isinstance(w, (Unknown, Union, Sequence, Shape)) for w in wanted):
        return None
    varying = [d.dynamic for d in receiver.dims or () if isinstance(d, Size)]
    rest = Size(True if True in varying else None) if varying else UNKNOWN
    return tuple(rest if w == Const(-1) else w for w in _as_dims(wanted))


def _made(it: Interpreter, node: ast.AST, short: str, arguments: Arguments, state: State) -> Tensor:
    """A tensor made from numbers."""
    first = arguments.get(0)
    use(it, tuple(v for v in _inside(first) if isinstance(v, Number) and v.outside))
    given = tensors((first,)) if first is not None else []
    made = Tensor(
        "default",
        it.site(node, state),
        scalar=_is_scalar(short, arguments),
        sized=bool(sizes(arguments.all)) or any(t.sized for t in given),
        fed=any(t.fed for t in given),
        dims=_made_dims(short, arguments),
        real="dtype" not in arguments.keywords and (short in _FILLED or _is_float(first)),
        exact=short in _DATA and short != "Tensor" and first is not None and _is_known(first),
        boolean=short == "tensor" and _is_bool(first) and "dtype" not in arguments.keywords,
        dtype=_cast_to(replace(arguments, positional=()), ""),
    )
    if isinstance(first, Tensor) and short in ("as_tensor", "tensor", "asarray"):
        made = replace(first, kept="")
    if state.frame.devices:
        entered = state.frame.devices[-1]
        kept = f"device {entered.name}" if entered.placement == "literal" else ""
        home = "context" if entered.placement == "literal" else ""
        made = replace(made, placement=entered.placement, site=entered.site, kept=kept, home=home, beside=())
    at_hand.note(it, node, state)
    return _on(made, arguments.get(-1, "device"), it, node, state)


def _inside(value: Value | None) -> tuple[Value, ...]:
    """What a value may be, and what may be in it."""
    found = options(value) if value is not None else ()
    return (*found, *(v for each in found if isinstance(each, Sequence) for v in options(each.any)))


def _is_float(value: Value | None) -> bool:
    """Whether a tensor made of the value alone surely holds floating-point numbers."""
    if isinstance(value, Sequence):
        return any(_is_float(item) for item in value.items or ())
    return isinstance(value, Const) and isinstance(value.value, float)


def _is_bool(value: Value | None) -> bool:
    return isinstance(value, Const) and isinstance(value.value, bool)


def _made_dims(short: str, arguments: Arguments) -> tuple[Value, ...] | None:
    if short not in _SHAPED - {"view", "reshape", "expand"}:
        return None
    wanted = arguments.positional[-1:] if short == "randint" else arguments.positional
    wanted = wanted[:1] if short == "full" else wanted
    if len(wanted) == 1 and isinstance(wanted[0], Sequence):
        return None if wanted[0].items is None else _as_dims(wanted[0].items)
    return _as_dims(wanted) if wanted and not any(isinstance(w, (Unknown, Shape)) for w in wanted) else None


def _as_dims(wanted: tuple[Value, ...]) -> tuple[Value, ...]:
    """The numbers among the sizes that were asked for; nothing is known of anything else."""
    return tuple(UNKNOWN if isinstance(w, (Tensor, Sequence, Dict)) else w for w in wanted)


def _is_scalar(short: str, arguments: Arguments) -> bool | None:
    """Whether a new tensor has no dimension; unknown where that hangs on an argument that is not known."""
    first = arguments.get(1) if short == "randint" and len(arguments.positional) > 1 else arguments.get(0)
    if short == "randint":
        first = arguments.positional[-1] if arguments.positional else None
    if first is None:
        return None
    if isinstance(first, Sequence):
        return None if first.items is None else not first.items
    if isinstance(first, Array):
        return False if short == "from_numpy" else None
    if short in _DATA and short != "Tensor":
        known = isinstance(first, (Const, Size, Number)) or (
            isinstance(first, Static) and first.of in ("int", "float", "size")
        )
        return True if known else None
    # A whole shape is taken from a tensor that has one: who makes a tensor like a number writes no shape.
    return None if isinstance(first, (Unknown, Union)) else False


def _on(made: Tensor, device: Value | None, it: Interpreter, node: ast.AST, state: State) -> Tensor:
    """The tensor on the device that was asked for."""
    if device is None or device == NONE:
        return made
    placement, name = placement_of(device)
    if placement == "literal" and _type_of(name) in state.there:
        placement = "follows"
    site = it.site(node, state) if placement in ("literal", "default") else None
    if site is not None:
        at_hand.note(it, node, state)
    made = replace(made, placement=placement, site=site, beside=())
    return replace(made, kept="" if placement != "literal" else name)


def _type_of(kept: str) -> str:
    """The type of a literal device; a number alone is that of a CUDA device."""
    name = kept.removeprefix("device ").partition(":")[0]
    return "cuda" if name.isdigit() else name


def placement_of(device: Value) -> tuple[Placement, str]:
    """Where a device argument puts a tensor, and the text of a literal."""
    if isinstance(device, Const) and isinstance(device.value, (str, int)):
        text = str(device.value)
        return ("unknown", "") if text == "meta" else ("literal", f"device {text}")
    if isinstance(device, Device):
        return device.placement, f"device {device.name}"
    return "unknown", ""


def _to(it: Interpreter, node: ast.AST, receiver: Tensor, arguments: Arguments, state: State) -> Value:
    """``x.to(...)``: a device, a dtype, another tensor, in this order of likelihood."""
    target = arguments.get(0, "device") if "device" in arguments.keywords else arguments.get(0)
    moved = replace(receiver, boolean=receiver.boolean and target is None, real=False)
    moved = replace(moved, dtype=_cast_to(arguments, receiver.dtype))
    if isinstance(target, Tensor):
        return replace(
            moved, placement=target.placement, site=target.site, boolean=target.boolean, beside=target.beside
        )
    if isinstance(target, Device) or (isinstance(target, Const) and type(target.value) in (str, int)):
        kept = receiver.kept
        placed = _on(moved, target, it, node, state)
        return placed if placed.placement == "literal" else replace(placed, kept=kept)
    if isinstance(target, (Unknown, Union)):
        return replace(moved, placement="unknown", site=None)
    return moved


def _cast_to(arguments: Arguments, before: str) -> str:
    """The dtype of what a call returns that may cast; the one that was there before, where it names none."""
    for value in arguments.all:
        for option in options(value):
            name = option.name if isinstance(option, External) else ""
            known = DTYPES.get(name) or WHOLE.get(name.removeprefix("torch."))
            if known:
                return known
            if isinstance(option, Tensor):
                return option.dtype or ANY_DTYPE
            if isinstance(option, Unknown):
                return ANY_DTYPE
    return ANY_DTYPE if "dtype" in arguments.keywords else before


def _cpu(it: Interpreter, node: ast.AST, receiver: Tensor, arguments: Arguments, state: State) -> Value:
    return _on(receiver, Const("cpu"), it, node, state)


def _cuda(it: Interpreter, node: ast.AST, receiver: Tensor, arguments: Arguments, state: State) -> Value:
    if isinstance(arguments.get(0, "device"), (Device, Unknown, Static)):
        return replace(receiver, placement="unknown", site=None)
    return _on(receiver, Const("cuda"), it, node, state)


def _type_as(it: Interpreter, node: ast.AST, receiver: Tensor, arguments: Arguments, state: State) -> Value:
    other = arguments.get(0, "tensor")
    if isinstance(other, Tensor):
        return replace(receiver, placement=other.placement, site=other.site, real=other.real, beside=other.beside)
    return replace(receiver, placement="unknown", site=None, real=False)


def _type(it: Interpreter, node: ast.AST, receiver: Tensor, arguments: Arguments, state: State) -> Value:
    """``x.type(...)``: a dtype, or a type of tensors, which is one of a device."""
    wanted = arguments.get(0, "dtype")
    if wanted is None:
        return Static("str")
    name = wanted.name if isinstance(wanted, External) else wanted.value if isinstance(wanted, Const) else ""
    made = replace(receiver, boolean=False, real=False)
    if isinstance(name, str) and name.endswith("Tensor"):
        return _on(made, Const("cuda" if ".cuda." in name else "cpu"), it, node, state)
    return made if isinstance(wanted, External) else replace(made, placement="unknown", site=None)


def _size(it: Interpreter, node: ast.AST, receiver: Tensor, arguments: Arguments, state: State) -> Value:
    dim = arguments.get(0, "dim")
    if dim is None:
        return shape(receiver)
    if isinstance(dim, Const) and isinstance(dim.value, int):
        return size_of(receiver, dim.value)
    return Size()


def _numel(it: Interpreter, node: ast.AST, receiver: Tensor, arguments: Arguments, state: State) -> Value:
    return Number("size", it.site(node, state)) if receiver.counted else Size()


def _tolist(it: Interpreter, node: ast.AST, receiver: Tensor, arguments: Arguments, state: State) -> Value:
    it.emit(Converted(it.site(node, state), receiver, "tolist"))
    number = Number("tolist", it.site(node, state), receiver.real)
    nested = receiver.dims is not None and len(receiver.dims) > 1
    return Sequence(None, Sequence(None, number) if nested else number, dim=size_of(receiver, 0))


def _same(it: Interpreter, node: ast.AST, receiver: Tensor, arguments: Arguments, state: State) -> Value:
    return receiver


def _detached(it: Interpreter, node: ast.AST, receiver: Tensor, arguments: Arguments, state: State) -> Value:
    return replace(receiver, layered=False)


def _clone(it: Interpreter, node: ast.AST, receiver: Tensor, arguments: Arguments, state: State) -> Value:
    return replace(receiver, kept="")


def _array(it: Interpreter, node: ast.AST, receiver: Tensor, arguments: Arguments, state: State) -> Value:
    return Array(it.site(node, state))


def _address(it: Interpreter, node: ast.AST, receiver: Tensor, arguments: Arguments, state: State) -> Value:
    return Number("address", it.site(node, state))


def _storage(it: Interpreter, node: ast.AST, receiver: Tensor, arguments: Arguments, state: State) -> Value:
    return External("torch.storage")


def shape(tensor: Tensor) -> Value:
    """``tensor.shape``."""
    if tensor.dims is not None and not tensor.counted:
        return Sequence(tensor.dims, kind="tuple")
    return Shape(tensor.counted, _is_fixed(tensor))


_SPECIAL = {
    "to": _to,
    "cpu": _cpu,
    "cuda": _cuda,
    "type_as": _type_as,
    "type": _type,
    "size": _size,
    "numel": _numel,
    "nelement": _numel,
    "tolist": _tolist,
    "detach": _detached,
    "contiguous": _same,
    "requires_grad_": _same,
    "clone": _clone,
    "numpy": _array,
    "__array__": _array,
    "data_ptr": _address,
    **dict.fromkeys(("storage", "untyped_storage"), _storage),
}
