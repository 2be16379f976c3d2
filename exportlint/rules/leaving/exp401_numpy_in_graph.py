"""# numpy-in-graph (EXP401)

## What it does
Reports numpy functions on tensors, operators between a tensor and an array, `.numpy()`, `.__array__()` and
`numpy.asarray(tensor)` in code that runs under capture.

## Why it matters
While a model is captured, tensors have no values to hand over: the capture fails. TorchDynamo (strict export and
`torch.compile`) traces numpy, so there only a Python number that is read out of the array breaks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from exportlint.fixes.edits import Tensorial, fix
from exportlint.rules.base import Match, Near, Observer, Rule, Variant, outcomes
from exportlint.rules.examples import example
from exportlint.source.events import Asked, Called, Event, Indexed
from exportlint.source.values import Array, Number, Sequence, Tensor, options, tensors

if TYPE_CHECKING:
    from collections.abc import Iterator


def match(event: Event) -> Iterator[Match]:
    """A tensor is handed to numpy, or a number is read out of an array that a tensor was handed to."""
    if isinstance(event, Called):
        given = (*event.arguments, *event.keywords.values())
        if event.name in (".numpy", ".__array__") and isinstance(event.receiver, Tensor):
            text = f"`{event.site.text}` hands the values of a tensor to numpy"
            yield Match(
                event.site,
                text,
                rewrite=f"Leave out {event.name}() and compute with torch on the tensor.",
                fix=fix("Leave out the array", Tensorial(event.site.range)),
            )
        elif event.name in ("numpy.operator", "torch.operator"):
            yield from _operator(event)
        elif event.name.startswith("numpy.") and tensors(given):
            yield Match(event.site, f"`{event.name}` is handed a tensor")
    elif isinstance(event, Asked):
        for option in options(event.value):
            if isinstance(option, Array) and option.site is not None and not option.of_size:
                yield Match(option.site, f"the numpy array of a tensor decides at line {event.site.line}", "number")
    elif isinstance(event, Indexed) and not isinstance(event.value, Tensor):
        yield from _bounded(event)


def _operator(event: Called) -> Iterator[Match]:
    """A tensor and an array met in an arithmetic operator or in a comparison."""
    array = next(value for value in event.arguments if isinstance(value, Array))
    first = event.name == "numpy.operator"
    variant = "numpy operator" if first else "kept array" if array.kept else ""
    text = f"`{event.site.text}` computes with a tensor and a numpy array"
    yield Match(event.site, text, variant, "Make a tensor of the array once, and register it as a buffer.")


def _bounded(event: Indexed) -> Iterator[Match]:
    """A slice of something that is no tensor, bounded by a number that was read out of an array."""
    several = isinstance(event.index, Sequence) and event.index.kind == "tuple"
    for position in event.index.items or () if several and isinstance(event.index, Sequence) else (event.index,):
        for bound in position.items or () if isinstance(position, Sequence) and position.kind == "slice" else ():
            if isinstance(bound, Number) and bound.how == "array" and bound.site is not None:
                text = f"a number of the numpy array of a tensor bounds a slice at line {event.site.line}"
                yield Match(bound.site, text, "number")


RULE = Rule(
    code="EXP401",
    name="numpy-in-graph",
    summary="Tensor values are handed to numpy while the model is captured",
    rewrite="Use the torch function of the same name.",
    page=__doc__,
    outcomes=outcomes(export="breaks", strict="fine", compiled="fine"),
    variants={
        "numpy operator": Variant(
            outcomes=outcomes(export="breaks", strict="breaks", compiled="breaks"),
            bad=example("def forward(self, x):\n    return np.ones(4) * x", imports="import numpy as np"),
        ),
        "kept array": Variant(
            outcomes=outcomes(export="breaks", strict="breaks", compiled="fine"),
            bad=example(
                "def forward(self, x):\n    return x + self.offset",
                imports="import numpy as np",
                init="self.offset = np.ones(4)",
            ),
        ),
        "number": Variant(
            outcomes=outcomes(export="breaks", strict="breaks", compiled="breaks"),
            bad=example("""
                def forward(self, x):
                    return x * 2 if x.detach().numpy().max() > 0.5 else x
            """),
        ),
    },
    bad=example("""
        def forward(self, x):
            return torch.from_numpy(x.detach().numpy()) + 1
    """),
    good=example(
        """
        def forward(self, x):
            return x * self.scale
        """,
        imports="import numpy as np",
        init="self.scale = float(np.sqrt(4))",
    ),
    fixed=example("""
        def forward(self, x):
            return x.detach() + 1
    """),
    near=(
        Near(
            variant="number",
            bad=example(
                """
                def forward(self, x, ends):
                    path = np.zeros((2, 4), dtype=np.float32)
                    path[0, : int(ends.numpy())] = 1.0
                    return x + torch.from_numpy(path).to(x)
                """,
                imports="import numpy as np",
                inputs="torch.ones(2, 4), torch.tensor(3)",
            ),
            good=example(
                """
                def forward(self, x, ends):
                    path = np.zeros((2, 4), dtype=np.float32)
                    path[0, : int(ends.dim())] = 1.0
                    return x + torch.from_numpy(path).to(x)
                """,
                imports="import numpy as np",
                inputs="torch.ones(2, 4), torch.tensor(3)",
            ),
        ),
        Near(
            bad=example("def forward(self, x):\n    return x * np.array([2.0])", imports="import numpy as np"),
            good=example("def forward(self, x):\n    return x * np.prod([2.0])", imports="import numpy as np"),
        ),
        Near(
            bad=example(
                """
                def forward(self, x):
                    return x + torch.as_tensor(np.tanh(x))
                """,
                imports="import numpy as np",
            ),
            good=example(
                """
                def forward(self, x):
                    return x + torch.as_tensor(np.tanh(4))
                """,
                imports="import numpy as np",
            ),
        ),
    ),
    proof="capture",
    observed_by=(Observer(check="capture"), Observer(check="compile", mode="compile")),
    events=(Called, Asked, Indexed),
    match=match,
)
