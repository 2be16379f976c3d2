"""What else a model may read when it is captured: grad mode, strides, process, command line, flags of torch.

A `Switch` knows how the source names what is read, and other answers to try. A read counts where the eager model with
another answer returns something else, and the program does not follow. Lines are found by their text among those that
ran, so that a model that reads nothing costs nothing; a text that means something else changes no result.
"""

from __future__ import annotations

import builtins
import contextlib
import dataclasses
import functools
import importlib
import re
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

from exportlint.checks.state.surroundings import direct, through_libraries
from exportlint.places import Place, is_users

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from contextlib import AbstractContextManager
    from types import FrameType, ModuleType

    from exportlint.checks.case import Inputs

SHIFTED = 1_000_003  # by which a number is another one
MOST_LINES = 5
PLATFORM = ("system", "machine", "node", "release")


@dataclass(frozen=True, slots=True)
class Change:
    """Another answer.

    Attributes:
        words: When it is given, in words.
        around: A context in which it is given, for the user's Python modules.
        inputs: What becomes of the arguments.
        model: What becomes of the model.
        result: What of another result counts, given the plain one.
    """

    words: str
    around: Callable[[Iterable[ModuleType]], AbstractContextManager[Any]] = lambda _: contextlib.nullcontext()
    inputs: Callable[[Inputs], Inputs] = lambda inputs: inputs
    model: Callable[[torch.nn.Module], Any] = lambda _: None
    result: Callable[[Any, Any], Any] = lambda _, changed: changed


NO_CHANGE = Change("")


@dataclass(frozen=True, slots=True)
class Switch:
    """Something that a model may read.

    Attributes:
        what: Its name, in words.
        pattern: Found in the text of a line that reads it.
        changes: Other answers, the likeliest to matter first.
        message: What to say about the line.
        rewrite: What to write instead.
        told: Whether a read without effect is worth a word.
        quiet: What to say about it.
        steady: An answer that is the same for each fresh model, where the true one is not.
    """

    what: str
    pattern: re.Pattern[str]
    changes: tuple[Change, ...]
    rewrite: str
    message: str = "state baked: {what} is read once, while the model is captured, and the program keeps the answer"
    told: bool = True
    quiet: str = "{what} is read when the model runs; that had no effect on its result in this run"
    steady: Change = NO_CHANGE

    @property
    def words(self) -> str:
        """What happens at a line that reads it."""
        return self.message.format(what=self.what)

    def lines(self, executed: Iterable[tuple[str, int]]) -> list[Place]:
        """The lines that read it among those that ran."""
        places = [Place(file, line) for file, line in dict.fromkeys(executed) if is_users(file)]
        reads = [place for place in places if self.pattern.search(place.source)]
        return [place for place in reads if not place.source.startswith(("import ", "from "))][:MOST_LINES]


# -- other answers of functions


@contextlib.contextmanager
def _answering(
    modules: Iterable[ModuleType],
    owner: Any,
    name: str,
    other: Callable[..., Any],
    asked: Callable[[FrameType], Place | None] = direct,
) -> Iterator[None]:
    """Give the user's own frames, as `asked` knows them, another answer; `other` gets the true one and arguments."""
    plain = getattr(owner, name, None)
    if plain is None:  # not on this system
        yield
        return

    @functools.wraps(plain)
    def answer(*args: Any, **kwargs: Any) -> Any:
        true = plain(*args, **kwargs)
        return true if asked(sys._getframe(1)) is None else other(true, *args)

    targets = [(owner, name)] + [(m, key) for m in modules for key, value in list(vars(m).items()) if value is plain]
    for target, key in targets:
        setattr(target, key, answer)
    try:
        yield
    finally:
        for target, key in targets:
            setattr(target, key, plain)


def _answer(path: str, other: Callable[..., Any], words: str) -> Change:
    """The change in which a function, named by its module and name, answers otherwise."""
    module, _, name = path.rpartition(".")
    return Change(
        words,
        lambda modules: _answering(modules, importlib.import_module(module), name, other, through_libraries),
    )


@contextlib.contextmanager
def _holding(owner: Any, name: str, value: Any) -> Iterator[None]:
    plain = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, plain)


@contextlib.contextmanager
def _numbered(modules: Iterable[ModuleType], first: int) -> Iterator[None]:
    """Addresses that count up from the first: the same for each fresh model."""
    seen: dict[int, int] = {}

    def address(true: int, _: Any) -> int:
        return first + 16 * seen.setdefault(true, len(seen))

    with _answering(modules, builtins, "id", address):
        yield


def _salted(true: int, value: Any) -> int:
    """Another hash for what holds text, as another process has; that of numbers is the same everywhere."""
    leaves = pytree.tree_leaves(value)
    return true ^ SHIFTED if any(isinstance(leaf, (str, bytes)) for leaf in leaves) else true


# -- other arguments and parameters


def _in_dtypes_of(plain: Any, changed: Any) -> Any:
    """The changed result in the dtypes of the plain one: that a dtype follows is what the model asks for."""
    ours, theirs = pytree.tree_leaves(plain), pytree.tree_leaves(changed)
    if len(ours) != len(theirs):
        return changed
    cast = [
        b.to(a.dtype) if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) else b
        for a, b in zip(ours, theirs, strict=True)
    ]
    return pytree.tree_unflatten(cast, pytree.tree_structure(changed))


def _with_gradients(inputs: Inputs) -> Inputs:
    found: Inputs = pytree.tree_map_only(
        torch.Tensor, lambda t: t.detach().requires_grad_(t.is_floating_point()), inputs
    )
    return found


def _otherwise_strided(inputs: Inputs) -> Inputs:
    """The same numbers, with the last two dimensions laid out the other way round."""

    def strided(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.dim() < 2 or tensor.layout is not torch.strided:
            return tensor
        return tensor.transpose(-1, -2).contiguous().transpose(-1, -2)

    found: Inputs = pytree.tree_map_only(torch.Tensor, strided, inputs)
    return found


def _channels_last(inputs: Inputs) -> Inputs:
    def strided(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to(memory_format=torch.channels_last) if tensor.dim() == 4 else tensor

    found: Inputs = pytree.tree_map_only(torch.Tensor, strided, inputs)
    return found


def _switch_gradients_off(model: torch.nn.Module) -> None:
    model.requires_grad_(requires_grad=not any(p.requires_grad for p in model.parameters()))


_DECIDES = "state baked: {what} decide here what is computed, and the program keeps what was decided for the example"
_GRADIENTS = Change("where gradients are recorded", lambda _: torch.enable_grad())
_ARGUMENT = "Pass it in as an argument, or decide in __init__."

SWITCHES = (
    Switch(
        "the grad mode",
        re.compile(r"is_grad_enabled|is_inference"),
        (_GRADIENTS, Change("in inference mode", lambda _: torch.inference_mode())),
        "Compute the same in both modes, or export one program for each.",
        told=False,
    ),
    Switch(
        "`requires_grad`",
        re.compile(r"requires_grad\b"),
        (
            Change("with inputs that require gradients", _GRADIENTS.around, _with_gradients),
            Change("with other parameters requiring gradients", _GRADIENTS.around, model=_switch_gradients_off),
        ),
        "Compute the same with and without gradients, or export one program for each.",
        told=False,
    ),
    Switch(
        "the strides of an input",
        re.compile(r"is_contiguous\b|\.stride\(|is_non_overlapping_and_dense"),
        (
            Change("for inputs with the same numbers and other strides", inputs=_otherwise_strided),
            Change("for inputs with channels last", inputs=_channels_last),
        ),
        "Call contiguous() first, or use operators that do not care, such as reshape.",
        _DECIDES,
        told=False,
    ),
    Switch(
        "the id of the process",
        re.compile(r"getpid\b"),
        (_answer("os.getpid", lambda true: true + SHIFTED, "in another process"),),
        _ARGUMENT,
    ),
    Switch(
        "the working directory",
        re.compile(r"getcwd|\bcwd\(|abspath|\.absolute\(|\.resolve\("),
        (_answer("os.getcwd", lambda true: f"{true}/elsewhere", "in another folder"),),
        _ARGUMENT,
    ),
    Switch(
        "the command line",
        re.compile(r"\bargv\b"),
        (
            Change("with one argument more", lambda _: _holding(sys, "argv", [*sys.argv, "--other"])),
            Change("without arguments", lambda _: _holding(sys, "argv", sys.argv[:1])),
        ),
        _ARGUMENT,
    ),
    Switch(
        "the hash of a text, which differs from process to process,",
        re.compile(r"\bhash\("),
        (Change("in a process with other hashes", lambda m: _answering(m, builtins, "hash", _salted)),),
        "Use a table, or hashlib.",
    ),
    Switch(
        "the address of an object",
        re.compile(r"\bid\("),
        (Change("with other addresses", lambda m: _numbered(m, 16 * SHIFTED)),),
        "Number the objects in __init__.",
        told=False,
        steady=Change("", lambda m: _numbered(m, SHIFTED)),
    ),
    Switch(
        "the number of threads or processors",
        re.compile(r"get_num_(interop_)?threads|cpu_count|sched_getaffinity"),
        (
            _answer("torch.get_num_threads", lambda true: 2 * true + 1, "with more threads"),
            _answer("torch.get_num_interop_threads", lambda true: 2 * true + 1, "with more threads"),
            _answer("os.cpu_count", lambda true: 2 * true + 1, "with more processors"),
            _answer("os.sched_getaffinity", lambda true, _: {*range(2 * len(true) + 1)}, "with more processors"),
        ),
        "Compute the same for any number of threads.",
    ),
    Switch(
        "the default dtype",
        re.compile(r"get_default_dtype"),
        (
            dataclasses.replace(
                _answer("torch.get_default_dtype", lambda _: torch.float64, "with float64 as the default dtype"),
                result=_in_dtypes_of,
            ),
        ),
        "Take the dtype from an input or a parameter.",
        quiet="{what} is read when the model runs, and the program keeps it; the numbers do not depend on it",
    ),
    Switch(
        "the default device",
        re.compile(r"get_default_device"),
        (_answer("torch.get_default_device", lambda _: torch.device("meta"), "with another default device"),),
        "Take the device from an input or a parameter.",
    ),
    Switch(
        "a flag of torch",
        re.compile(r"deterministic|matmul_precision|\.benchmark\b|allow_tf32"),
        (
            _answer(
                "torch.are_deterministic_algorithms_enabled", lambda true: not true, "with deterministic algorithms"
            ),
            _answer("torch.get_float32_matmul_precision", lambda _: "medium", "with another precision of matmul"),
            *(
                Change(
                    f"with torch.backends.cudnn.{name} the other way",
                    lambda _, name=name: _holding(  # type: ignore[misc]
                        torch.backends.cudnn, name, not getattr(torch.backends.cudnn, name)
                    ),
                )
                for name in ("deterministic", "benchmark", "allow_tf32")
            ),
        ),
        _ARGUMENT,
    ),
    Switch(
        "the platform",
        re.compile(rf"platform\.({'|'.join(PLATFORM)})\b|gethostname"),
        tuple(
            _answer(path, lambda _: "elsewhere", "on another machine")
            for path in (
                "platform.system",
                "platform.machine",
                "platform.node",
                "platform.release",
                "socket.gethostname",
            )
        ),
        _ARGUMENT,
    ),
    Switch(
        "the locale",
        re.compile(r"getlocale|localeconv|getpreferredencoding|getdefaultlocale"),
        (
            _answer("locale.getlocale", lambda *_: ("de_DE", "ISO8859-1"), "in another locale"),
            _answer("locale.localeconv", lambda true: {**true, "decimal_point": ","}, "in another locale"),
            _answer("locale.getpreferredencoding", lambda *_: "ISO-8859-1", "in another locale"),
        ),
        _ARGUMENT,
    ),
)
