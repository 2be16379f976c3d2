"""The contents of tensors: each kind is an expression that needs torch alone, so that a failing call can be printed.

A tensor is made by evaluating its expression, so what is printed is what was run.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import CodeType

    import torch

    from exportlint.checks.case import Inputs
    from exportlint.shapes.contract import Contract

    Choose = Callable[
        [tuple[str, ...], tuple[str, ...]], tuple[str, int, str]
    ]  # of kinds and layouts: kind, seed, layout

# The plainest first, which is what a failing call shrinks to.
FLOAT_KINDS = ("zeros", "constant", "normal", "negative", "large", "small", "duplicates")
COMPLEX_KINDS = ("zeros", "constant", "real", "imaginary", "normal", "negative", "large", "small", "duplicates")
UNIT_KINDS = ("zeros", "constant", "uniform")
INTEGER_KINDS = ("smallest", "largest", "duplicates", "below the sizes", "range")
BOOLEAN_KINDS = ("full", "empty", "single", "empty row", "full row", "right padded", "left padded", "random")
NUMBER = "number"  # the kind of what is no tensor
CONSTANT_KINDS = ("smallest", "largest", "duplicates")  # of integers
KEPT = "as in the example"  # the kind of what a model takes no other values for
PLAIN = ("uniform", "normal", "range", "random", "largest")  # the kinds that hide least; the last where all do
HIDES = -1e4  # no larger is what a mask that is added holds where nothing may be seen
GENERATOR = "generator=torch.Generator().manual_seed({seed})"


@dataclass(frozen=True, slots=True)
class Domain:
    """The values that a tensor input may take.

    Attributes:
        low: The smallest.
        high: The largest, included.
        mask: Whether it holds 0 and 1; of floats below 0 the smallest, which is added where nothing may be seen, and 0.
        firm: Whether other values are out of the question, and not just none of the examples'.
        kept: Code for the values of the example, where the model refuses random ones, such as offsets that do not rise.
    """

    low: float
    high: float
    mask: bool = False
    firm: bool = True
    kept: str = ""


@dataclass(frozen=True, slots=True)
class Recipe:
    """How one tensor, or one number, is made.

    Attributes:
        shape: Its sizes; of a number the number itself.
        dtype: torch's name for its type, such as ``torch.float32``.
        kind: The kind of its contents.
        seed: For contents that are random.
        low: Smallest value, for kinds that have one.
        high: Largest value.
        layout: ``contiguous``, ``transposed`` (the last two dimensions), ``expanded`` (along the first), or
            ``channels last``.
        grad: Whether it requires a gradient.
        hides: Of a mask that is added: code for what it holds where nothing may be seen; 0 is elsewhere.
        values: Code for what is kept as it is in the example.
    """

    shape: tuple[int, ...]
    dtype: str
    kind: str
    seed: int = 0
    low: float = 0.0
    high: float = 1.0
    layout: str = "contiguous"
    grad: bool = False
    hides: str = ""
    values: str = ""

    @property
    def words(self) -> str:
        """Kind and layout, such as ``normal, transposed``."""
        return self.kind if self.layout == "contiguous" else f"{self.kind}, {self.layout}"

    @property
    def code(self) -> str:
        """An expression for the tensor, or the number."""
        if self.kind == NUMBER:
            return repr(self.shape[0])
        text = self._laid_out(self._filled())
        return f"{_atom(text)}.requires_grad_()" if self.grad else text

    def make(self) -> torch.Tensor | int:
        """A new tensor, the same each time, or the number."""
        import torch

        made: torch.Tensor | int = eval(_compiled(self.code), {"torch": torch})
        return made

    def _filled(self) -> str:
        text, natural = self._expression()
        return text if self.dtype == natural else f"{_atom(text)}.to({self.dtype})"

    def _expression(self) -> tuple[str, str]:
        """The contents, and the type that they have by themselves."""
        size, generator = repr(list(self.shape)), GENERATOR.format(seed=self.seed)
        if self.kind == KEPT:
            return self.values, self.dtype
        if self.kind in BOOLEAN_KINDS:
            return self._mask(generator)
        if self.kind in INTEGER_KINDS and not self.dtype.startswith(("torch.float", "torch.bfloat", "torch.complex")):
            return self._integers(size, generator), "torch.int64"
        if self.dtype.startswith("torch.complex") and self.kind != "uniform":
            return self._complex(size, generator), "torch.complex64"
        normal = f"torch.randn({size}, {generator})"
        scaled = {"large": f"{normal} * 1000", "small": f"{normal} * 0.001", "negative": f"-{normal}.abs()"}
        other = {
            "zeros": f"torch.zeros({size})",
            "constant": f"torch.ones({size})",
            "duplicates": f"torch.randint(-1, 2, {size}, {generator}).to(torch.float32)",
            "uniform": f"torch.rand({size}, {generator})",
        }
        text = scaled.get(self.kind) or other.get(self.kind, normal)
        if self.kind == "uniform" and (self.low, self.high) != (0.0, 1.0):
            text = f"{text} * {self.high - self.low!r} + {self.low!r}"
        return text, "torch.float32"

    def _complex(self, size: str, generator: str) -> str:
        """Contents with two parts, but for the kinds that have one."""
        real, both = f"torch.randn({size}, {generator})", f"torch.randn({size}, {generator}, dtype=torch.complex64)"
        pairs = repr([*self.shape, 2])
        special = {
            "zeros": f"torch.zeros({size}, dtype=torch.complex64)",
            "constant": f"torch.ones({size}, dtype=torch.complex64)",
            "real": f"{real}.to(torch.complex64)",
            "imaginary": f"{real} * 1j",
            "negative": f"(-{real}.abs()).to(torch.complex64)",
            "duplicates": f"torch.view_as_complex(torch.randint(-1, 2, {pairs}, {generator}).to(torch.float32))",
        }
        scaled = {"large": f"{both} * 1000", "small": f"{both} * 0.001"}
        return special.get(self.kind) or scaled.get(self.kind, both)

    def _mask(self, generator: str) -> tuple[str, str]:
        text = _mask(self.kind, self.shape, generator)
        if not self.hides:
            return text, "torch.int64"
        shown = f"torch.zeros({list(self.shape)!r}, dtype={self.dtype})"
        return f"{shown}.masked_fill({_atom(text)} == 0, {self.hides})", self.dtype

    def _integers(self, size: str, generator: str) -> str:
        low, high = int(self.low), int(self.high)
        constants = {"smallest": low, "largest": high, "duplicates": low + self.seed % (high - low + 1)}
        if self.kind in constants:
            return f"torch.full({size}, {constants[self.kind]})"
        return f"torch.randint({low}, {high + 1}, {size}, {generator})"

    def _laid_out(self, text: str) -> str:
        if self.layout == "transposed":
            return f"{_atom(text)}.transpose(-1, -2).contiguous().transpose(-1, -2)"
        if self.layout == "expanded":
            return f"{_atom(text)}[:1].expand({list(self.shape)!r})"
        if self.layout == "channels last":
            return f"{_atom(text)}.contiguous(memory_format=torch.channels_last)"
        return text


def _atom(text: str) -> str:
    """The expression, in brackets where a method cannot follow it."""
    return f"({text})" if any(f" {sign} " in text for sign in "*+<|") or text.startswith("-") else text


@functools.lru_cache(maxsize=1024)
def _compiled(code: str) -> CodeType:
    return compile(code, "<drawn>", "eval")


def _mask(kind: str, shape: tuple[int, ...], generator: str) -> str:
    """0 and 1; each row along the last dimension has at least one 1, but for those of masks that are ``empty``.

    The first row along the first dimension may differ from all others: in ``empty row`` it alone has no 1.
    """
    size = repr(list(shape))
    if kind == "empty" or (kind == "empty row" and len(shape) == 1):
        return f"torch.zeros({size}, dtype=torch.int64)"
    if not shape or 0 in (shape[0], shape[-1]) or kind == "full":
        return f"torch.ones({size}, dtype=torch.int64)"
    if kind in ("empty row", "full row"):
        other, row = ("ones", 0) if kind == "empty row" else ("zeros", 1)
        return f"torch.{other}({size}, dtype=torch.int64).index_fill(0, torch.tensor([0]), {row})"
    width, rows = shape[-1], repr([*shape[:-1], 1])
    places = f"torch.arange({width})"
    if kind == "random":
        return f"torch.randint(0, 2, {size}, {generator}) | ({places} < 1)"
    if kind == "single":
        return f"({places} < torch.ones({rows})).to(torch.int64)"
    lengths = f"({places} < torch.randint(1, {width + 1}, {rows}, {generator})).to(torch.int64)"
    return f"{lengths}.flip(-1)" if kind == "left padded" else lengths


def recipe(choose: Choose, like: torch.Tensor, shape: tuple[int, ...], domain: Domain | None, smallest: int) -> Recipe:
    """A recipe for a tensor of this shape that is otherwise like this one.

    Args:
        choose: Chooses among kinds and layouts, and a seed.
        like: Gives the dtype.
        shape: The sizes.
        domain: The values that it may take.
        smallest: The smallest dynamic size of the call, below which integers are valid indices everywhere.
    """
    if domain is not None and domain.kept and shape == tuple(like.shape):
        bounds = float(domain.low), float(domain.high)  # for other sizes of it
        return Recipe(shape, str(like.dtype), KEPT, 0, *bounds, grad=like.requires_grad, values=domain.kept)
    kinds = kinds_of(like, domain)
    kind, seed, layout = choose(kinds, layouts_of(shape))
    low, high = (domain.low, domain.high) if domain is not None else (0, 1)
    if kind == "below the sizes":
        high = max(low, min(high, smallest - 1))
    if domain is not None and domain.mask and low < 0:  # what JSON has no word for is kept as code
        hides = _hides(low, like.dtype)
        return Recipe(shape, str(like.dtype), kind, seed, layout=layout, grad=like.requires_grad, hides=hides)
    return Recipe(shape, str(like.dtype), kind, seed, float(low), float(high), layout, like.requires_grad)


def _hides(low: float, dtype: torch.dtype) -> str:
    """Code for what a mask that is added holds where nothing may be seen."""
    import torch

    if low == -torch.inf:
        return "-torch.inf"
    return f"torch.finfo({dtype}).min" if low == torch.finfo(dtype).min else repr(low)


def number(shape: tuple[int, ...]) -> Recipe:
    """The recipe of a number, which is its only size."""
    return Recipe(shape, "int", NUMBER)


def sized(made: Recipe, shape: tuple[int, ...]) -> Recipe:
    """The recipe for another shape, or number, in the same layout where that is one of the shape's."""
    if made.kind == KEPT and shape != made.shape:
        kind = "zeros" if made.dtype.startswith(("torch.float", "torch.bfloat", "torch.complex")) else "largest"
        return dataclasses.replace(made, shape=shape, kind=kind, values="")
    layout = made.layout if made.layout in layouts_of(shape) else "contiguous"
    return dataclasses.replace(made, shape=shape, layout=layout)


def kinds_of(like: torch.Tensor, domain: Domain | None) -> tuple[str, ...]:
    """The kinds of contents for a tensor of this type."""
    import torch

    if like.dtype == torch.bool or (domain is not None and domain.mask):
        return BOOLEAN_KINDS
    if not like.is_floating_point() and not like.is_complex():
        return CONSTANT_KINDS if domain is not None and domain.kept else INTEGER_KINDS
    if domain is None:
        return COMPLEX_KINDS if like.is_complex() else FLOAT_KINDS
    if not domain.firm:
        return (*UNIT_KINDS, *(kind for kind in FLOAT_KINDS if kind not in UNIT_KINDS))
    values = {"zeros": 0, "constant": 1}
    return tuple(kind for kind in UNIT_KINDS if domain.low <= values.get(kind, domain.low) <= domain.high)


def layouts_of(shape: tuple[int, ...]) -> tuple[str, ...]:
    """The layouts in which a tensor of this shape can differ from a contiguous one."""
    found = ["contiguous"]
    if len(shape) >= 2 and min(shape[-2:]) > 1:
        found.append("transposed")
    if len(shape) == 4 and shape[1] > 1 and shape[0] > 0:
        found.append("channels last")
    if shape and shape[0] > 1:
        found.append("expanded")
    return tuple(found)


def domains(
    model: Any, contract: Contract, examples: tuple[Inputs, ...], declared: Mapping[str, tuple[int, int]]
) -> dict[int, Domain]:
    """The values that each tensor may take.

    They are declared, or those of the embedding that reads the input, or else those seen in the examples. Of floats
    that all lie between 0 and 1, as images and probabilities do, most are drawn there; what is 0 or hides is a mask
    that is added. Other floats have no domain.

    Args:
        model: A fresh model; it is called with the first example.
        contract: The tensors.
        examples: Example calls of one structure; the first is run.
        declared: Smallest and largest value by the name of the parameter.
    """
    from torch.utils import _pytree as pytree

    flats = [pytree.tree_leaves(example) for example in examples]
    vocabularies = _vocabularies(model, examples[0])
    found: dict[int, Domain] = {}
    for leaf in contract.tensors:
        seen = [flat[leaf.index] for flat in flats if leaf.index < len(flat) and hasattr(flat[leaf.index], "dtype")]
        if leaf.parameter in declared:
            found[leaf.index] = Domain(*declared[leaf.parameter])
        elif (memory := _memory(flats[0][leaf.index])) in vocabularies:
            found[leaf.index] = Domain(0, vocabularies[memory] - 1)
        else:
            domain = _seen(seen, leaf.words)
            if domain is not None:
                found[leaf.index] = domain
    return found


def _seen(tensors: list[torch.Tensor], name: str) -> Domain | None:
    """The domain that the values in the examples suggest."""
    import torch

    filled = [t for t in tensors if t.numel() and t.dtype != torch.bool and not t.is_complex()]
    if not filled:
        return None
    # In double, since the small types have no minimum of their own.
    low, high = min(float(t.double().min()) for t in filled), max(float(t.double().max()) for t in filled)
    flags = "mask" in name.lower() and all(bool(((t == 0) | (t == 1)).all()) for t in filled)
    if filled[0].is_floating_point() and not flags:
        if low <= HIDES and all(bool(((t == 0) | (t == low)).all()) for t in filled):
            return Domain(low, 0.0, mask=True)
        return Domain(0.0, 1.0, firm=False) if low >= 0.0 and high <= 1.0 else None
    return Domain(low, high, mask=flags)


def _memory(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr() if tensor.numel() else 0


READERS = {  # operators that read rows of a table, with the places of the table and of the indices
    "embedding": (0, 1),
    "_embedding_bag": (0, 1),
    "_embedding_bag_forward_only": (0, 1),
    "index_select": (0, 2),
}


def _vocabularies(model: Any, example: Inputs) -> dict[int, int]:
    """By the memory of a tensor among the arguments: the number of rows of the table that it, or a view, reads."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    sizes: dict[int, int] = {}

    class Reads(TorchDispatchMode):  # type: ignore[no-untyped-call]
        supports_higher_order_operators = True

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            name = getattr(getattr(func, "_schema", None), "name", "").removeprefix("aten::")
            if name in READERS:
                table, indices = (args[place] for place in READERS[name])
                rows = table.shape[args[1] if name == "index_select" else 0]
                sizes[_memory(indices)] = min(rows, sizes.get(_memory(indices), rows))
            return func(*args, **(kwargs or {}))

    reads: Any = Reads()  # type: ignore[no-untyped-call]
    # A model that does not run where its operators are watched tells nothing of its tables.
    with contextlib.suppress(Exception), torch.no_grad(), torch.compiler.set_stance("force_eager"), reads:
        model(*example[0], **example[1])
    return sizes
