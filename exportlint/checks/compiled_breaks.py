"""From a graph that ``torch.compile`` does not capture to lines, rules and PyTorch's own numbers of graph breaks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from exportlint import blame, places
from exportlint.checks.context import fresh
from exportlint.text import said
from exportlint.torch_hooks import breaks

if TYPE_CHECKING:
    from collections.abc import Iterable

    from exportlint.checks.context import Context
    from exportlint.findings import Finding
    from exportlint.places import Place

# What the words stand for that dynamo has of its own. They are those of torch 2.13 and 2.14; the first that matches
# counts.
RULES = (
    ("EXP101", r"data-dependent expression Eq\(u\d+, 1\).*Size-like symbols: none"),
    ("EXP802", r"ops do not support aliasing"),
    ("EXP803", r"to have same metadata|merging two branches' output"),
    ("EXP901", r"torch\.jit\.script|_CachedForward|ScriptModule"),
    ("EXP403", r"builtin operator `print`|logging\.Logger|builtin `_warnings\.warn"),
    ("EXP303", r"(builtin|function) `(time\.|datetime\.|[^`]*Random\.)"),
    ("EXP501", r"setattr\(\) on unsupported type"),
    ("EXP502", r"torch\.nn\.Parameter\(\)` constructor"),
    ("EXP801", r"does not support running with fake tensors"),
    ("EXP301", r"wrap RNN, GRU, or LSTM"),
    ("EXP101", r"[Dd]ata[- ]dependent (branching|operator|assert)|generic_jump|sort with non-constant keys"),
    ("EXP101", r"builtin operator `(sorted|max|min|any|all)` with argument types \['Tensor'"),
    ("EXP102", r"Could not (guard on|extract specialized)|tolist\(\)|Tensor\.item|pack_padded_sequence"),
    ("EXP102", r"builtin operator `(range|str|int|float|len|bool)`|tp_repr_impl|PendingUnbacked"),
    ("EXP202", r"same device|Tensor device mismatch"),
    ("EXP402", r"marked as skipped|[Uu]nsupported (method call|context manager)|deepcopy|returned non-Tensor"),
    ("EXP402", r"Failed to trace builtin operator|data_ptr|wrap sparse Tensor"),
)
NUMBER = re.compile(r"/gb/(gb\d+)\.html")
HERE = re.compile(r'File "([^"]+)", line (\d+)')
EXPLANATION = re.compile(r"^ *(?:Explanation|Hint): (.+)$", re.MULTILINE)
USER_CODE = "from user code"
ADVICE = "Consider annotating your code using torch._check*(). "  # which comes before what happened
JUMP, JUMP_WORDS = "generic_jump", ("Data-dependent branching", "GB0170")  # which has no number in an explanation


class GraphBreak(NamedTuple):
    """One place where a graph ends."""

    rule: str
    kind: str
    number: str
    place: Place | None
    words: str

    def finding(self, ctx: Context) -> Finding:
        """The finding for it; without a line of its own it is placed at the head of the model."""
        named = f"{self.kind} ({self.number})" if self.number else self.kind
        message = f"torch.compile(fullgraph=True) cannot go on here: {named}"
        place = self.place or ctx.head()
        return blame.finding(self.rule, message, place, outcome="breaks", evidence=self.words, mode="compile")


def of_error(error: BaseException) -> GraphBreak:
    """The break that ended a capture as one graph."""
    text = said(error)
    frames = (
        [(file, int(line)) for file, line in HERE.findall(text[text.rfind(USER_CODE) :])] if USER_CODE in text else []
    )
    place = places.of_frames(reversed(frames)) or blame.place_of(error)
    return _made(f"{type(error).__name__}: {text}", text, place, blame.words(error))


def further(ctx: Context) -> tuple[int, list[GraphBreak], str | None]:
    """How many graphs there are where breaks are allowed, all breaks, and why they are not known."""
    why_not = breaks.why_not()
    if why_not is not None:
        return 0, [], why_not
    import torch

    args, kwargs = fresh(ctx.example())
    try:
        with torch.no_grad():
            found = breaks.explain(ctx.build(), args, dict(kwargs))
    except Exception as error:
        blame.pass_on_memory_error(error)
        return 0, [], f"further graph breaks are not known: {blame.words(error)}"
    made = [_made(b.words, b.words, places.of_frames(reversed(b.frames)), "") for b in found.breaks]
    return found.graphs, made, None


def _made(matched: str, text: str, place: Place | None, words: str) -> GraphBreak:
    rule = next((code for code, pattern in RULES if re.search(pattern, matched)), None)
    number = NUMBER.search(text)
    kind = next((line.strip() for line in text.splitlines() if line.strip()), "no reason is given")
    kind = kind.removeprefix(ADVICE)
    known = number[1].upper() if number else ""
    if kind.startswith(JUMP):
        kind, known = JUMP_WORDS
    explained = EXPLANATION.search(text)
    words = explained[1].strip() if explained else words
    return GraphBreak(rule or blame.rule_of(matched), kind[:120], known, place, words[:300])


def distinct(found: Iterable[GraphBreak]) -> list[GraphBreak]:
    """The breaks, those at one line once."""
    kept: dict[tuple[Place | None, str], GraphBreak] = {}
    for one in found:
        kept.setdefault((one.place, one.rule), one)
    return list(kept.values())
