"""# cache-grown-by-length (EXP302)

## What it does
Reports a table that `forward` keeps on `self`, in a global or in a cache, and rebuilds when the length changes or
grows, or under the length as its key, which may be in a text.

## Why it matters
The capture sees one length. The program keeps the table of that length, or the comparison pins the dimension to the
example's side; the cached tensor is also left behind in the eager model, on the device of the first call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from exportlint.fixes.edits import Recomputed, Undecorated, fix
from exportlint.rules.base import Match, Near, Observer, Rule, Variant, outcomes
from exportlint.rules.examples import example
from exportlint.source.events import Called, Carried, Indexed
from exportlint.source.values import SIZE_TEXT, Dict, Sequence, Value, sizes, the_tensor

if TYPE_CHECKING:
    from collections.abc import Iterator


def match(event: Carried | Called | Indexed) -> Iterator[Match]:
    """State derived from a size is kept for the next call."""
    if isinstance(event, Carried):
        change = event.change
        if change.is_sized and change.how in ("set", "advance"):
            where = f"self.{change.name}" if change.owner is not None else change.name
            site = change.guard or event.site  # the test is what pins the dimension
            text = f"`{where}` keeps what was made for one size, and the next call reads it"
            anew = fix("Compute it in each call", Recomputed(site.range), unsafe=True)
            yield Match(site, text, fix=anew if change.owner is not None else None)
    elif isinstance(event, Indexed):
        if event.stored and isinstance(event.value, Dict) and event.value.kept:
            kind, _, name = event.value.kept.partition(" ")
            yield from _keyed(event, f"self.{name}" if kind == "attribute" else name)
    elif event.name == "functools.lru_cache":
        keyed = sizes((*event.arguments, *event.keywords.values()))
        if keyed and the_tensor(event.result) is not None:
            text = f"`{event.site.text}` caches a tensor by the size of an input"
            anew = fix("Compute it in each call", Undecorated(event.site.range, "lru_cache"), unsafe=True)
            yield Match(event.site, text, "lru_cache", fix=anew)


def _keyed(event: Indexed, where: str) -> Iterator[Match]:
    """A size is a key. Of a dimension that seems to hold features, only the cache itself says that it varies."""
    keys = [size for size in sizes((event.index,)) if size.varies or size.dynamic is None]
    if keys:
        guess = not any(size.varies for size in keys)
        yield Match(event.site, f"`{where}` keeps what was made for one size, under that size as its key", guess=guess)
    elif _names_size(event.index):
        yield Match(event.site, f"`{where}` keeps what was made for one size, under a key with that size in it", "text")


def _names_size(key: Value) -> bool:
    """Whether a key is text with a size in it, or holds such text."""
    parts = key.items or () if isinstance(key, Sequence) else (key,)
    return SIZE_TEXT in parts


_KEYED = """
def forward(self, x):
    n = x.shape[0]
    if n not in self.tables:
        self.tables[n] = torch.ones(n, device=x.device).sum()
    return x + self.tables[n]
"""
_NAMED = _KEYED.replace("n = x.shape[0]", 'n = f"size {x.shape[0]}"').replace("torch.ones(n,", "torch.ones(3,")

RULE = Rule(
    code="EXP302",
    name="cache-grown-by-length",
    summary="A table is cached on the module or globally, for the first length that was seen",
    rewrite="Compute the table in forward, or make it once for the largest length and slice it.",
    page=__doc__,
    outcomes=outcomes(export="specialises", strict="specialises", compiled="fine"),
    variants={
        # While a model is exported by default, the text names a symbol; TorchDynamo makes a number of it.
        "text": Variant(
            outcomes=outcomes(export="fine", strict="specialises", compiled="fine"),
            bad=example(
                _KEYED.replace("n not in", 'f"{n}" not in').replace("[n]", '[f"{n}"]'),
                init="self.tables = {}",
                inputs="torch.ones(3, 4)",
                inputs2="torch.ones(5, 4)",
            ),
        ),
        "lru_cache": Variant(
            outcomes=outcomes(export="specialises", strict="fine", compiled="fine"),
            bad=example(
                """
                def forward(self, x):
                    return x + table(x.shape[1], x.device)
                """,
                imports="import functools",
                above="""
                @functools.lru_cache
                def table(length, device):
                    return torch.arange(length, device=device)
                """,
                inputs="torch.ones(2, 4)",
                inputs2="torch.ones(2, 7)",
            ),
        ),
    },
    bad=example(
        """
        def forward(self, x):
            if x.shape[1] != self.length:
                self.length = x.shape[1]
                self.table = torch.arange(x.shape[1], device=x.device)
            return x * self.scale + self.table
        """,
        init="""
        self.scale = 2
        self.length = None
        self.table = None
        """,
        build="""
        model = Net().eval()
        model(torch.ones(2, 4))
        return model
        """,
        inputs="torch.ones(2, 4)",
        inputs2="torch.ones(2, 7)",
    ),
    good=example(
        """
        def forward(self, x):
            self.length = x.shape[1]
            return x + torch.arange(self.length, device=x.device)
        """,
        inputs="torch.ones(2, 4)",
        inputs2="torch.ones(2, 7)",
    ),
    fixed=example(
        """
        def forward(self, x):
            table = torch.arange(x.shape[1], device=x.device)
            return x * self.scale + table
        """,
        init="self.scale = 2",
        build="""
        model = Net().eval()
        model(torch.ones(2, 4))
        return model
        """,
        inputs="torch.ones(2, 4)",
        inputs2="torch.ones(2, 7)",
    ),
    near=(
        Near(
            bad=example(_KEYED, init="self.tables = {}", inputs="torch.ones(3, 4)", inputs2="torch.ones(5, 4)"),
            good=example(
                _KEYED.replace("[0]", "[1]"),
                init="self.tables = {}",
                inputs="torch.ones(3, 4)",
                inputs2="torch.ones(5, 4)",
            ),
        ),
        Near(
            variant="text",
            bad=example(_NAMED, init="self.tables = {}", inputs="torch.ones(3, 4)", inputs2="torch.ones(5, 4)"),
            good=example(
                _NAMED.replace("[0]", "[1]"),
                init="self.tables = {}",
                inputs="torch.ones(3, 4)",
                inputs2="torch.ones(5, 4)",
            ),
        ),
        Near(
            bad=example(
                _KEYED.replace("self.tables", "TABLES"),
                above="TABLES = {}",
                inputs="torch.ones(3, 4)",
                inputs2="torch.ones(5, 4)",
            ),
            good=example(
                _KEYED.replace("self.tables", "TABLES").replace("[0]", "[1]"),
                above="TABLES = {}",
                inputs="torch.ones(3, 4)",
                inputs2="torch.ones(5, 4)",
            ),
        ),
        Near(
            bad=example(
                """
                def forward(self, x):
                    if self.fixed is not None or x.shape[1] > self.table.shape[0]:
                        self.table = torch.arange(2 * x.shape[1], device=x.device)
                    return x + self.table[: x.shape[1]]
                """,
                init="self.table = torch.arange(6)\nself.fixed = None",
                inputs="torch.ones(2, 4)",
                inputs2="torch.ones(2, 20)",
            ),
            good=example(
                """
                def forward(self, x):
                    if self.fixed is None or x.shape[1] > self.table.shape[0]:
                        self.table = torch.arange(2 * x.shape[1], device=x.device)
                    return x + self.table[: x.shape[1]]
                """,
                init="self.table = torch.arange(6)\nself.fixed = None",
                inputs="torch.ones(2, 4)",
                inputs2="torch.ones(2, 20)",
            ),
        ),
    ),
    proof="second call",
    observed_by=(Observer(check="shapes", precondition="dynamic dimension", first_call=True),),
    events=(Carried, Called, Indexed),
    match=match,
)
