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
    """Let the call of a method that moves a tensor (``cuda``, ``cpu``, ``to``, ``type``) move it to this device."""

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
    """Make ``torch.where`` of what the node decides: a conditional expression, or an ``if`` with two outcomes.

    Attributes:
        alone: Whether the node surely has no dimension, which the result would get of one that has.
    """

    alone: bool = True


class Unasked(Edit, frozen=True, array_like=True, tag=True):
    """Leave out the question whether there is anything, of which the node is a part, where nothing changes nothing."""


class Raised(Edit, frozen=True, array_like=True, tag=True):
    """Make an assertion of torch of the ``if`` that does nothing but raise an error, and whose test the node is."""


class Checked(Edit, frozen=True, array_like=True, tag=True):
    """Demand with ``torch._check`` what the ``if`` asks of numbers that does nothing but raise an error otherwise.

    The node is its test, or a part of it.
    """


class Skipped(Edit, frozen=True, array_like=True, tag=True):
    """Ask only in eager whether a mask may be forgotten: the node is in the test of the ``if`` that forgets it."""


class Branched(Edit, frozen=True, array_like=True, tag=True):
    """Make functions for ``torch.cond`` of the two ways of the ``if`` whose test the node is.

    Attributes:
        alone: Whether the node surely has no dimension.
    """

    alone: bool = True


class Unread(Edit, frozen=True, array_like=True, tag=True):
    """Leave out ``.item()``, the call that the node is, where the number is only computed with, and decides.

    Attributes:
        test: The test that it decides, which becomes `Selected`.
    """

    test: Range


class Lifted(Edit, frozen=True, array_like=True, tag=True):
    """Index with a tensor of one dimension in the place of one of none, and take the one result."""


class Stacked(Edit, frozen=True, array_like=True, tag=True):
    """Call every module of the container that the node indexes, and choose among the results."""


class Hoisted(Edit, frozen=True, array_like=True, tag=True):
    """Compute the node in ``__init__``, and keep it as an attribute of this name."""

    name: str


class Computed(Edit, frozen=True, array_like=True, tag=True):
    """Put a tensor in the place of a number that is only computed with; ``ARGUMENT`` stands for its arguments."""

    source: str


class Followed(Edit, frozen=True, array_like=True, tag=True):
    """Move the tensor that is the default of the parameter of this name, which the node is, to a device at first."""

    name: str
    source: str


class Undecorated(Edit, frozen=True, array_like=True, tag=True):
    """Take the decorator of this name off the function that the node calls."""

    name: str


class Recomputed(Edit, frozen=True, array_like=True, tag=True):
    """Compute anew in each call what the ``if`` around the node, or whose test it is, keeps on ``self``."""


class Unthreaded(Edit, frozen=True, array_like=True, tag=True):
    """Call in turn what the pool of threads maps that the node makes."""


class Owned(Edit, frozen=True, array_like=True, tag=True):
    """Keep the global number that the node, an augmented assignment, changes in a buffer outside of the state dict."""

    name: str


class Copied(Edit, frozen=True, array_like=True, tag=True):
    """Write to the buffer of this name, to which the node binds something else."""

    name: str


class Plain(Edit, frozen=True, array_like=True, tag=True):
    """Leave sizes in the tuple of which the call makes an array, and ask Python for the largest and smallest."""


class Unwrapped(Edit, frozen=True, array_like=True, tag=True):
    """Save the state dict of the module in the wrapper whose state dict the call saves."""


class Vectorised(Edit, frozen=True, array_like=True, tag=True):
    """Compute of all rows at once what the loop over the node computes of each."""


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
    | Guarded | Selected | Unasked | Raised | Checked | Skipped | Branched | Unread | Lifted | Stacked | Hoisted
    | Computed | Followed | Undecorated | Recomputed | Unthreaded | Owned | Copied | Plain | Unwrapped | Vectorised
    | Renamed | Below
)  # fmt: skip


class Handed(msgspec.Struct, frozen=True, array_like=True):
    """A parameter of a function that others call.

    Attributes:
        function: The name of the function.
        parameter: The name of the parameter.
        position: Its place among the arguments of a call that have no name.
        owned: Whether it is a method, called of an object.
        optional: Whether a call may leave it out.
    """

    function: str
    parameter: str
    position: int
    owned: bool = False
    optional: bool = False


class Fix(msgspec.Struct, frozen=True, array_like=True):
    """A rewrite of the place that a finding is at.

    Attributes:
        title: What it does, in a few words without a final full stop.
        edits: What to do; all of it or nothing.
        applicability: ``safe``: what the model computes where it ran stays as it is, and so does its state dict;
            ``unsafe``: that may change; ``display``: it is shown and never applied.
        otherwise: What to do where the code is not of the kind that this fits.
        handed: The parameters that the tensor at hand comes from: it is safe only if each call gives them tensors.
    """

    title: str
    edits: tuple[AnyEdit, ...]
    applicability: Applicability = "safe"
    otherwise: Fix | None = None
    handed: tuple[Handed, ...] = ()

    @property
    def needs_tensor(self) -> bool:
        """Whether it is complete only with the name of a tensor at hand."""
        own = AT_HAND in self.title or any(AT_HAND in getattr(edit, "source", "") for edit in self.edits)
        return own or (self.otherwise is not None and self.otherwise.needs_tensor)

    def with_tensor(self, name: str, handed: tuple[Handed, ...] = ()) -> Fix:
        """The fix with the name of a tensor written in, which comes from these parameters."""
        edits = tuple(
            msgspec.structs.replace(e, source=e.source.replace(AT_HAND, name)) if hasattr(e, "source") else e
            for e in self.edits
        )
        otherwise = self.otherwise.with_tensor(name) if self.otherwise is not None else None
        return Fix(self.title.replace(AT_HAND, name), edits, self.applicability, otherwise, handed)

    def doubted(self) -> Fix:
        """The fix as an unsafe one."""
        otherwise = self.otherwise.doubted() if self.otherwise is not None else None
        kind: Applicability = "unsafe" if self.applicability == "safe" else self.applicability
        return msgspec.structs.replace(self, applicability=kind, otherwise=otherwise)


def fix(title: str, *edits: AnyEdit, unsafe: bool = False) -> Fix:
    """A fix of these edits."""
    return Fix(title, edits, "unsafe" if unsafe else "safe")


def first_of(*fixes: Fix) -> Fix:
    """The first of these that fits the code; all are of the same applicability."""
    *before, found = fixes
    for each in reversed(before):
        found = msgspec.structs.replace(each, otherwise=found)
    return found
