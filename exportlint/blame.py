"""Blame: from a failure to the line that caused it and the rule that names it."""

from __future__ import annotations

import ast
import functools
import inspect
import re
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from exportlint.findings import severity
from exportlint.places import Place, is_users, of_traceback, parsed
from exportlint.rules import catalogue
from exportlint.text import SLACK, said

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import torch

    from exportlint.findings import Finding, Mode, Outcomes, Result

EVIDENCE_CHARACTERS = 300


@dataclass(frozen=True, slots=True)
class Symptom:
    """How a failure looks, and the rule that it stands for.

    Attributes:
        pattern: Matched against ``ExceptionClass: message``.
        rule: Code of the rule.
        message: What happens at the line.
    """

    pattern: re.Pattern[str]
    rule: str
    message: str


def _symptom(rule: str, message: str, *patterns: str) -> Symptom:
    return Symptom(re.compile("|".join(patterns), re.DOTALL), rule, message)


# The first that matches counts. The words are those of torch 2.13 and 2.14.
SYMPTOMS = (
    _symptom(
        "EXP101",
        "Python asks for the truth value of a tensor, which has none while the model is captured",
        r"Could not guard on data-dependent expression Eq\(u\d+, 1\).*Size-like symbols: none",
    ),
    _symptom(
        "EXP102",
        "a Python number that depends on the data decides what is computed here",
        r"GuardOnDataDependentSymNode",
        r"DataDependentOutput",
        r"PendingUnbackedSymbol",
        r"Could not (guard on|extract specialized)",
    ),
    _symptom(
        "EXP102",
        "the value of a tensor is printed",
        r"unsupported format string passed to (Fake|Functional)Tensor",
    ),
    _symptom(
        "EXP102",
        "a tensor stands where a number is needed",
        r"only integer tensors",
        r"index of type .*FakeTensor",
        r"an integer is required.*FakeTensor",
        r"but got FakeTensor",
    ),
    _symptom(
        "EXP302",
        "a size is looked up as a key here, and has no hash while it is dynamic",
        r"unhashable type: non-nested SymInt",
    ),
    _symptom(
        "EXP401",
        "a tensor is handed to numpy",
        r"\.numpy\(\) is not supported",
        r"can't convert .* to numpy",
        r"__array__",
    ),
    _symptom(
        "EXP003",
        "a parameter takes its sizes from the first call, and there was none: call the model once before the export",
        r"uninitialized parameter",
    ),
    _symptom(
        "EXP201",
        "a device is written down that this machine does not have",
        r"not (compiled|linked) with (support for )?\w*(CUDA|cuda|XPU|xpu|HIP|hip|MPS|mps)",
        r"Found no NVIDIA driver",
        r"No CUDA GPUs are available",
        r"device type at start of device string",
    ),
    _symptom(
        "EXP202",
        "tensors on different devices meet",
        r"same device",
        r"FakeTensorDeviceMismatch",
        r"Unhandled FakeTensor Device Propagation",
        r"is not on the expected device",
    ),
    _symptom(
        "EXP402",
        "the memory of a tensor is asked for, and there is none while the model is captured",
        r"data_ptr",
        r"data pointer",
        r"data is not allocated yet",
        r"tracing into a custom kernel",
    ),
    _symptom(
        "EXP603",
        "dynamic_shapes cannot be matched to the parameters of forward",
        r"top-level keys must be the arg names",
        r"mismatch between the structure of `inputs` and `dynamic_shapes`",
        r"tree_name when there might be a mismatch",
    ),
    _symptom(
        "EXP003",
        "a distributed tensor (torch.distributed.tensor.DTensor) is made here, which torch.export does not capture",
        r"non-fx-graphable type <class 'torch\.distributed\.tensor\.",
    ),
    _symptom(
        "EXP601",
        "an input or output is of a class that torch.export does not know",
        r"Unsupported input type",
        r"pytree",
        r"Unsupported output type",
        r"unsupported type .* output",
    ),
    _symptom(
        "EXP801",
        "an operator without a fake kernel is called",
        r"UnsupportedOperatorException",
        r"[Nn]o (fake|meta) (impl|kernel)",
        r"Missing fake kernel",
    ),
    _symptom("EXP301", "a dynamic size is narrowed here", r"Constraints violated", r"ConstraintViolation"),
)

# Names of decorators that keep results: cache, lru_cache, cached_property, cachedmethod, cache_on_self, memoize.
CACHING = re.compile(r"^(?!.*(clear|fresh|reset|without|no_))(.*_)?(cached?(method)?|memoi[sz]ed?)(_|$)")
OUT_OF_MEMORY = re.compile(r"not enough memory|can't allocate memory|Cannot allocate memory|bad_alloc|out of memory")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether the exception says that memory ran out."""
    return any(isinstance(e, MemoryError) or OUT_OF_MEMORY.search(said(e)) for e in _chain(error))


def pass_on_memory_error(error: BaseException) -> None:
    """Leave what a check makes of an exception to whoever runs it, where memory ran out: it is no fault of the model.

    Raises:
        MemoryError: When that is what the exception says.
    """
    if is_out_of_memory(error):
        raise MemoryError from error


def of_failure(error: BaseException, head: Place | None = None, outcome: Result = "breaks") -> Finding:
    """The finding for an exception that a capture raised, and what that means for the capture that was asked for.

    The place is the innermost line that is not torch's; where there is none, the head of the model.
    """
    rule, message = classify(error)
    place = place_of(error) or head
    return finding(rule, message, place, outcome=outcome, evidence=words(error))


def classify(error: BaseException) -> tuple[str, str]:
    """The rule that an exception stands for, and what to say about the line."""
    for candidate in _chain(error):
        symptom = _symptom_of(f"{type(candidate).__name__}: {said(candidate)}")
        if symptom is not None:
            return symptom.rule, symptom.message
    return "EXP003", "torch.export cannot capture this line"


def rule_of(text: str) -> str:
    """The rule that the words of a failure, ``ExceptionClass: message``, stand for."""
    symptom = _symptom_of(text)
    return "EXP003" if symptom is None else symptom.rule


def _symptom_of(text: str) -> Symptom | None:
    return next((symptom for symptom in SYMPTOMS if symptom.pattern.search(text)), None)


def place_of(error: BaseException) -> Place | None:
    """The innermost line that is not torch's, of the exception or of what caused it."""
    for candidate in _chain(error):
        place = of_traceback(candidate.__traceback__)
        if place is not None:
            return place
    return None


def finding(
    rule: str,
    message: str,
    place: Place | None,
    *,
    outcome: Result | None,
    rewrite: str | None = None,
    evidence: str | None = None,
    mode: Mode = "export",
) -> Finding:
    """A finding of a check, with the rule's own rewrite where none is given.

    Args:
        rule: Code of the rule.
        message: What happens there.
        place: Where; ``None`` where no line could be blamed.
        outcome: What was seen, which decides the severity: ``fine`` is advice. ``None`` where nothing was tried, which
            is advice, too.
        rewrite: What to write instead.
        evidence: What was observed.
        mode: The mode in which the check captures.
    """
    from exportlint.findings import Finding

    outcomes: Outcomes = {} if outcome is None else {mode: outcome}
    worst, rewrite = severity(outcomes) or "info", rewrite or catalogue()[rule].rewrite
    if place is not None:
        return place.finding(rule, worst, message, rewrite=rewrite, evidence=evidence, outcomes=outcomes)
    return Finding(rule=rule, severity=worst, message=message, rewrite=rewrite, evidence=evidence, outcomes=outcomes)


def words(error: BaseException) -> str:
    """The exception in one line: its class and the first line of its message that says something."""
    text = next((line.strip() for line in said(error).splitlines() if line.strip()), "")
    line = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return line if len(line) <= EVIDENCE_CHARACTERS + SLACK else line[: EVIDENCE_CHARACTERS - 3] + "..."


def forward_of(model: torch.nn.Module) -> Place | None:
    """The head of the model's ``forward``; ``None`` for a model of torch's own."""
    return definition_of(type(model).forward if "forward" not in vars(model) else model.forward)


def definition_of(thing: Any) -> Place | None:
    """The head of the definition of a function or class; ``None`` where it is not the user's, or has no source."""
    try:
        thing = inspect.unwrap(thing)
        file = inspect.getsourcefile(thing)
        lines, first = inspect.getsourcelines(thing)
    except (OSError, TypeError, ValueError):
        return None
    heads = ("def ", "async def ", "class ")
    head = next((i for i, line in enumerate(lines) if line.lstrip().startswith(heads)), 0)
    return Place(file, first + head) if file and is_users(file) else None


def rebinding_of(owner: type, attribute: str) -> Place | None:
    """The first line outside of constructors at which a class or one of its bases assigns ``self.ATTRIBUTE``."""

    def rebinding(lines: list[str]) -> Iterator[int]:
        try:
            tree = ast.parse(textwrap.dedent("".join(lines)))
        except SyntaxError:
            return iter(())
        functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name != "__init__"]
        return iter(sorted(line for function in functions for line in _assigning(function, attribute)))

    return next((place for place in _first_in_each(owner, rebinding) if is_users(place.file)), None)


def _assigning(function: ast.FunctionDef, attribute: str) -> Iterator[int]:
    for node in ast.walk(function):
        if not isinstance(node, ast.Attribute) or not isinstance(node.ctx, ast.Store) or node.attr != attribute:
            continue
        if isinstance(node.value, ast.Name) and node.value.id == "self":
            yield node.lineno


def assignment_of(owner: type, attribute: str) -> Place | None:
    """The first line ``self.ATTRIBUTE = ...`` in the class or one of its bases, or where the buffer is registered."""
    name = re.escape(attribute)
    pattern = re.compile(rf"self\.{name}\b\s*(:[^=]+)?=(?!=)|(register|add)_\w+\(\s*[\"']{name}[\"']")
    found = _first_in_each(owner, lambda lines: (n for n, line in enumerate(lines, 1) if pattern.search(line)))
    return next(found, None)


def _first_in_each(owner: type, matching: Callable[[list[str]], Iterator[int]]) -> Iterator[Place]:
    """Of a class and of each of its bases, the first line that matches; lines count from 1 in each."""
    for cls in owner.__mro__:
        try:
            file = inspect.getsourcefile(cls)
            lines, first = inspect.getsourcelines(cls)
        except (OSError, TypeError):
            continue
        found = next(matching(lines), None) if file else None
        if file and found is not None:
            yield Place(file, first + found - 1)


def _chain(error: BaseException | None) -> list[BaseException]:
    """The exception, then what caused it, outermost first; cycles end it."""
    found: list[BaseException] = []
    while error is not None and error not in found:
        found.append(error)
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return found


def size_rule(place: Place | None) -> str:
    """The rule for a size that is narrowed at a place: a cache that is kept by length, or a size that is frozen."""
    return "EXP302" if place is not None and place.line in _cache_lines(place.file) else "EXP301"


@functools.lru_cache(maxsize=64)
def _cache_lines(file: str) -> frozenset[int]:
    """Lines of conditions whose branch stores to an attribute, a global or an item, and of cached functions."""
    tree = parsed(file)
    if tree is None:
        return frozenset()
    lines: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and any(_stores(child) for child in node.body):
            lines.update(range(node.lineno, (node.test.end_lineno or node.lineno) + 1))
        elif isinstance(node, ast.FunctionDef) and any(map(_is_cache, node.decorator_list)):
            lines.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return frozenset(lines)


def _is_cache(decorator: ast.expr) -> bool:
    """Whether a decorator keeps what a function returned, by its name; what it is called with says nothing."""
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    name = called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""
    return CACHING.match(name) is not None


def _stores(statement: ast.stmt) -> bool:
    """Whether the statement stores something that outlives the call."""
    return any(
        isinstance(node, (ast.Attribute, ast.Subscript))
        and isinstance(node.ctx, ast.Store)
        and isinstance(node if isinstance(node, ast.Attribute) else node.value, ast.Attribute)
        for node in ast.walk(statement)
    )
