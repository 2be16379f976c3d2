"""# python-state (EXP501)

## What it does
Reports counters, appended lists, advanced iterators, flags and attributes that `forward` changes and that a later call
reads: on `self`, on a class, in a global, in an imported file of the project, on a function, in a default that is a
list or dictionary, or in a variable of the function that made the one that changes it (`nonlocal`, or a list there).

## Why it matters
The program keeps the value of the one call that was captured. Its second call repeats the first. Under
`torch.compile` state is kept right, but attributes of functions are refused, as by strict export.

A counter that nothing else in the file reads, or only what is printed or logged and when, changes no result: the
program only does not count. That is a finding of severity `info`, shown with `--show-info`. `self.calls` of an
unrelated class is another counter.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from exportlint.fixes.edits import Copied, Counted, Owned, fix
from exportlint.rules.base import Match, Near, Observer, Rule, Variant, outcomes
from exportlint.rules.examples import example
from exportlint.rules.output import lines_of_output
from exportlint.source.events import Carried, Changed
from exportlint.source.values import NONE, Const, Number, Static, Tensor, Value, options

if TYPE_CHECKING:
    from collections.abc import Iterator

    from exportlint.source.index import ClassEntry

_GROWING = frozenset({"append", "extend", "insert", "appendleft"})
_CONTAINER = frozenset({"append", "extend", "insert", "add", "update", "appendleft", "item", "setdefault"})


def match(event: Carried) -> Iterator[Match]:
    """State that the call changed is read by the next one."""
    change = event.change
    where = f"self.{change.name}" if change.owner is not None else change.name
    variant = "function attribute" if change.of_function else ""
    if change.how == "next":
        yield Match(event.site, f"`{where}` is advanced here, and the next call goes on from there")
        return
    if change.how in _CONTAINER:
        if change.how in _GROWING or _is_filled(change):
            yield Match(event.site, f"`{where}` grows in every call, and the next call reads it")
        return
    if _is_first_call(change):
        text = f"`{where}` tells the first call from later ones, and the program only knows one"
        yield Match(event.site, text, variant)
        return
    found = options(change.value)
    advanced = change.how == "advance"
    if change.is_sized or not any(_is_state(v, advanced) for v in found):
        return
    if change.how == "advance" and all(isinstance(v, (Const, Static)) for v in found) and _is_unread(event):
        yield Match(
            event.site,
            f"`{where}` counts calls, which the program does not, and nothing but output reads it in the file",
            "unread counter",
            rewrite="Remove it, or count outside of the model.",
        )
        return
    buffer = change.how in ("set", "advance") and any(isinstance(v, Tensor) and v.kept == "buffer" for v in found)
    counts = change.how == "advance" and change.owner is not None
    kept = fix("Keep it in a buffer", Counted(event.site.range, change.name), unsafe=True) if counts else None
    if change.how == "advance" and change.owner is None and not change.of_function:
        kept = fix("Count in a buffer of the module", Owned(event.site.range, change.name), unsafe=True)
    if buffer and change.owner is not None:
        kept = fix("Write to the buffer in place", Copied(event.site.range, change.name), unsafe=True)
    text = f"`{where}` is changed here, and the next call reads it"
    yield Match(event.site, text, "buffer" if buffer else variant, fix=kept)


def _is_filled(change: Changed) -> bool:
    """Whether state is put into a container; a number that is put where there is none yet is the same in each call."""
    plain = all(isinstance(v, (Const, Static)) for v in options(change.value))
    if plain and change.how == "item" and change.guard is not None and " not in " in change.guard.text:
        return False
    return any(_is_state(v, True) for v in options(change.value))


def _is_first_call(change: Changed) -> bool:
    """Whether a flag is flipped under a test of itself that also decides what is computed."""
    flipped = isinstance(change.value, Const) and isinstance(change.value.value, bool) and change.how == "set"
    if not flipped or not change.decides or change.guard is None or not isinstance(change.old, (Const, Static)):
        return False
    name = re.escape(change.name.rpartition(".")[2])
    return re.fullmatch(rf"(?:not )?(?:\w+\.)*{name}", change.guard.text) is not None


def _is_unread(event: Carried) -> bool:
    """Whether each line that names the state does nothing but bind it to what follows from itself and constants."""
    name = re.escape(event.change.name.rpartition(".")[2])
    named = re.compile(rf"\b{name}\b")
    dotted = rf"(?:type\(\w+\)\.)?(?:\w+\.)*{name}"
    quoted = rf"""self\s*,\s*["']{name}["']\s*"""
    value = rf"(?:{dotted}|getattr\({quoted}(?:,[-\s\d.]+)?\)|[-+*/%\s\d.])*(?:#.*)?"
    first = rf"(?:global|nonlocal)\s+{name}|if\s+not\s+hasattr\({quoted}\)\s*:"
    binds = re.compile(rf"\s*(?:{first}|{dotted}\s*(?::\s*\w+\s*)?(?:[-+*%/]|//)?=\s*{value})\s*")
    lines = list(event.site.source.lines)
    for number in lines_of_output(event.site.source.text):
        lines[number - 1] = ""
    own = re.compile(rf"(?<![\w.])self\.{name}\b")
    for cls in _strangers(event):  # what an object of another class calls so is not the counter
        span = slice(cls.extent.first - 1, cls.extent.last)
        lines[span] = [own.sub("self", line) for line in lines[span]]
    return all(binds.fullmatch(line.rstrip("\r\n")) for line in lines if named.search(line))


def _strangers(event: Carried) -> list[ClassEntry]:
    """The classes of the file, outermost ones alone, that have nothing to do with the one whose state it is."""
    home = next((c.module for c in event.classes if c.module.source is event.site.source), None)
    if home is None:
        return []
    related = {*(c.name for c in event.classes)}
    every = home.classes.values()
    for _ in every:  # those that derive from it may read what it counts
        related.update(c.name for c in every if any(b.rpartition(".")[2] in related for b in c.bases))
    return [c for c in every if c.name not in related]


def _is_state(value: Value, advanced: bool) -> bool:
    """Whether the next call may find another value: what no input fed, and no old value, is the same in each call."""
    if isinstance(value, Tensor):
        return value.fed
    return isinstance(value, Number) or (advanced and isinstance(value, (Const, Static)) and value != NONE)


_STEPPED = "def forward(self, x):\n    return x * self.step()"
_COUNTER = """
def counter():
    n = 0

    def step():
        nonlocal n
        n += 1
        return n

    return step
"""

RULE = Rule(
    code="EXP501",
    name="python-state",
    summary="Python state changed in forward is lost by the exported program",
    rewrite="Keep the state in a registered buffer and update it in place, or pass it in and return it.",
    page=__doc__,
    outcomes=outcomes(export="silent", strict="silent", compiled="fine"),
    variants={
        "buffer": Variant(
            outcomes=outcomes(export="fine", strict="silent", compiled="fine"),
            bad=example(
                """
                def forward(self, x):
                    self.mean = self.mean * 0.9 + x.mean(0) * 0.1
                    return x - self.mean
                """,
                init='self.register_buffer("mean", torch.zeros(4))',
            ),
        ),
        "function attribute": Variant(
            outcomes=outcomes(export="silent", strict="breaks", compiled="breaks"),
            changed={"2.14": outcomes(export="silent", strict="silent", compiled="fine")},
            bad=example(
                """
                def forward(self, x):
                    return x * counted()
                """,
                above="""
                def counted():
                    counted.calls += 1
                    return counted.calls

                counted.calls = 0
                """,
            ),
        ),
        "unread counter": Variant(
            outcomes=outcomes(export="fine", strict="fine", compiled="fine"),
            bad=example(
                """
                def forward(self, x):
                    self.calls += 1
                    return x * 2
                """,
                init="self.calls = 0",
            ),
            advice=True,
        ),
    },
    bad=example(
        """
        def forward(self, x):
            self.calls += 1
            return x * self.calls
        """,
        init="self.calls = 0",
    ),
    good=example(
        """
        def forward(self, x):
            self.calls = 1
            return x * self.calls
        """,
        init="self.calls = 0",
    ),
    fixed=example(
        """
        def forward(self, x):
            self.calls.add_(1)
            return x * self.calls
        """,
        init='self.register_buffer("calls", torch.tensor(0), persistent=False)',
    ),
    near=(
        Near(
            bad=example(
                """
                def forward(self, x):
                    global CALLS
                    CALLS += 1
                    return x * CALLS
                """,
                above="CALLS = 0",
            ),
            good=example(
                """
                def forward(self, x):
                    global CALLS
                    CALLS = 1
                    return x * CALLS
                """,
                above="CALLS = 0",
            ),
        ),
        Near(
            bad=example(_STEPPED, above=_COUNTER, init="self.step = counter()"),
            good=example(_STEPPED, above=_COUNTER.replace("n += 1", "n = 1"), init="self.step = counter()"),
        ),
        Near(
            bad=example(
                """
                def forward(self, x):
                    mine, seen = [], self.seen
                    seen.append(x)
                    return x * len(seen)
                """,
                init="self.seen = []",
            ),
            good=example(
                """
                def forward(self, x):
                    mine, seen = [], self.seen
                    mine.append(x)
                    return x * len(seen)
                """,
                init="self.seen = []",
            ),
        ),
        Near(
            bad=example(
                """
                def forward(self, x):
                    if not hasattr(self, "first"):
                        self.register_buffer("first", torch.clone(x[0]))
                    return x - self.first
                """,
                inputs="torch.ones(2, 4)",
                inputs2="torch.ones(2, 4) * 3",
            ),
            good=example(
                """
                def forward(self, x):
                    if not hasattr(self, "first"):
                        self.register_buffer("first", torch.zeros_like(x[0]))
                    return x - self.first
                """,
                inputs="torch.ones(2, 4)",
                inputs2="torch.ones(2, 4) * 3",
            ),
        ),
    ),
    proof="second call",
    observed_by=(Observer(check="state"),),
    events=(Carried,),
    match=match,
)
