"""Arguments that torch takes as plain integers: a symbolic one is made a constant, and one that has no value yet fails.

Found by exporting calls of each with torch 2.13: most operators keep such a number symbolic, and these do not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from exportlint.source.values import Sequence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from exportlint.source.events import Called
    from exportlint.source.values import Value

# The names of the arguments, with their positions.
_WINDOW = {"kernel_size": 1, "stride": 2}
_SIZES = {"output_size": 1}
_INTEGERS: dict[str, dict[str, int]] = {
    **{f"{kind}_pool{n}d": _WINDOW for kind in ("avg", "max") for n in "123"},
    **{f"lp_pool{n}d": {"kernel_size": 2, "stride": 3} for n in "123"},
    "adaptive_avg_pool1d": _SIZES,
    "adaptive_max_pool1d": _SIZES,
    "unfold": {"kernel_size": 1},
    "one_hot": {"num_classes": 1},
    "pixel_shuffle": {"upscale_factor": 1},
    "linspace": {"steps": 2},
    **{f"{kind}_window": {"window_length": 0} for kind in ("hann", "hamming", "blackman", "bartlett")},
    **{f"{kind}Pool{n}d": {"kernel_size": 0, "stride": 1} for kind in ("Avg", "Max") for n in "123"},
}
_SPACES = ("torch.nn.functional", "torch", "torch.nn")
_UNFOLDED = {"size": 1, "step": 2}  # of the method of a tensor


def integer_arguments(event: Called) -> Iterator[Value]:
    """What a call gives where torch takes an integer; the parts of a tuple one by one."""
    space, _, name = event.name.rpartition(".")
    wanted = _INTEGERS.get(name, {}) if space in _SPACES else _UNFOLDED if event.name == ".unfold" else {}
    for keyword, position in wanted.items():
        given = event.keywords.get(keyword)
        if given is None and position < len(event.arguments):
            given = event.arguments[position]
        if isinstance(given, Sequence):
            yield from given.items or ()
        elif given is not None:
            yield given
