"""What a fix asks for, as plain records: rules attach them to matches without a concrete tree.

Each edit names a node by its range in the file that the finding is in. `exportlint.fixes.texts` makes text of them.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from exportlint.source.sites import Range  # noqa: TC001 - msgspec asks for it

Applicability = Literal["safe", "unsafe", "display"]

AT_HAND = "\0"
"""Stands in an edit's source for the name of a tensor at hand that follows the inputs; no source holds it."""


ARGUMENT = "\1"
"""Stands in `OfArgument` for the argument of the call."""


class Edit(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Base of all edits; `range` is that of the node."""

    range: Range


class Keyword(Edit, frozen=True, array_like=True, tag=True):
    """Give the call this keyword argument, in place of the one of that name or of a positional one.

    Attributes:
        name: Its name.
        source: Its value.
        position: The index of the positional argument that it may be given as; -1 where there is none.
    """

    name: str
    source: str
    position: int = -1


class Moved(Edit, frozen=True, array_like=True, tag=True):
    """Let the call of a method that moves a tensor (``cuda``, ``cpu``, ``to``) move it to this device."""

    source: str


class Behind(Edit, frozen=True, array_like=True, tag=True):
    """Write this behind the expression, such as ``.to(x.device)``."""

    source: str


class Called(Edit, frozen=True, array_like=True, tag=True):
    """Let the call call another function of torch: the dotted name of it."""

    name: str


class OfArgument(Edit, frozen=True, array_like=True, tag=True):
    """Put something that is made of the call's first argument in the place of the call.

    Attributes:
        code: What; `ARGUMENT` stands for the argument.
        alone: Whether the call may have no other argument; else those are left out.
    """

    code: str
    alone: bool = True


class Asserted(Edit, frozen=True, array_like=True, tag=True):
    """Make an assertion of torch of the ``assert`` whose test the node is."""


class Counted(Edit, frozen=True, array_like=True, tag=True):
    """Keep the number that the node, an augmented assignment, changes in a buffer outside of the state dict."""

    name: str


class Answered(Edit, frozen=True, array_like=True, tag=True):
    """Make a plain bool of the keyword argument of the call: ``True if VALUE else False``."""

    name: str


class Tensorial(Edit, frozen=True, array_like=True, tag=True):
    """Leave out ``.numpy()`` of the call, and the function of torch around it that makes a tensor of it again."""


class Registered(Edit, frozen=True, array_like=True, tag=True):
    """Make ``self.NAME = VALUE``, whose value the node is or is in, a registered buffer outside of the state dict."""

    name: str


class Listed(Edit, frozen=True, array_like=True, tag=True):
    """Make the list that the ``__init__`` of the class around the node binds to ``self.NAME`` an ``nn.ModuleList``."""

    name: str


class Guarded(Edit, frozen=True, array_like=True, tag=True):
    """Run the statement that is nothing but this call only if a function of torch says no: its dotted name."""

    name: str


class Selected(Edit, frozen=True, array_like=True, tag=True):
    """Make ``torch.where`` of what the node decides: a conditional expression, or an ``if`` with two outcomes."""


class Renamed(Edit, frozen=True, array_like=True, tag=True):
    """Rename the attribute of ``self`` in the class around the node, and where it is registered by its name."""

    name: str
    new: str


class Below(Edit, frozen=True, array_like=True, tag=True):
    """Write a call of a function of torch, given the class, below the top-level class of this name."""

    cls: str
    name: str


AnyEdit = (
    Keyword | Moved | Behind | Called | OfArgument | Asserted | Counted | Answered | Tensorial | Registered | Listed
    | Guarded | Selected | Renamed | Below
)  # fmt: skip


class Fix(msgspec.Struct, frozen=True, array_like=True):
    """A rewrite of the place that a finding is at.

    Attributes:
        title: What it does, in a few words without a final full stop.
        edits: What to do; all of it or nothing.
        applicability: ``safe``: what the model computes where it ran stays as it is, and so does its state dict;
            ``unsafe``: that may change; ``display``: it is shown and never applied.
    """

    title: str
    edits: tuple[AnyEdit, ...]
    applicability: Applicability = "safe"

    @property
    def needs_tensor(self) -> bool:
        """Whether it is complete only with the name of a tensor at hand."""
        return AT_HAND in self.title or any(AT_HAND in getattr(edit, "source", "") for edit in self.edits)

    def with_tensor(self, name: str) -> Fix:
        """The fix with the name of a tensor written in."""
        edits = tuple(
            msgspec.structs.replace(e, source=e.source.replace(AT_HAND, name)) if hasattr(e, "source") else e
            for e in self.edits
        )
        return Fix(self.title.replace(AT_HAND, name), edits, self.applicability)


def fix(title: str, *edits: AnyEdit, unsafe: bool = False) -> Fix:
    """A fix of these edits."""
    return Fix(title, edits, "unsafe" if unsafe else "safe")
