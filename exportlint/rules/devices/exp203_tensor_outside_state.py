"""# tensor-outside-state (EXP203)

## What it does
Reports a tensor used in `forward` that is kept as a plain attribute of a module, as a global or as a default argument,
or in a list, tuple or dictionary there; and parameters and modules that are kept in a plain list.

## Why it matters
`module.to(device)` moves parameters and buffers only. The plain tensor stays on the device where it was made, is
missing from the state dict, and is baked into the exported program as a constant. One that `forward` also writes to
cannot be lowered: `run_decompositions` refuses a constant that changes.

Under `torch.compile` it is no finding: the model is captured anew on the device at hand, and fails there only where it
fails in eager too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from exportlint.fixes.edits import AT_HAND, Followed, Listed, Registered, fix
from exportlint.rules.base import Match, Near, Observer, Rule, Variant, outcomes
from exportlint.rules.examples import example
from exportlint.source.events import Changed, Event, Met
from exportlint.source.values import INSIDE, Tensor, Value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from exportlint.fixes.edits import Fix
    from exportlint.source.sites import Range


_CAST = "a buffer of floats is also cast by .to(dtype), as the plain tensor was not."


def _register(name: str) -> str:
    return f'Register it: self.register_buffer("{name}", ..., persistent=False); {_CAST}'


def _registered(place: Range, name: str) -> Fix:
    """Unsafe: a buffer is cast with the model, and no class below may bind something else to the name."""
    return fix("Register it as a buffer outside of the state dict", Registered(place, name), unsafe=True)


def match(event: Event) -> Iterator[Match]:
    """A tensor that is kept outside of the state meets one that follows the inputs, or is written to."""
    if isinstance(event, Met) and event.stray.home not in ("", "context"):
        yield _met(event)
    elif isinstance(event, Changed) and event.how == "item" and event.origin is not None and _is_plain(event.old):
        yield Match(
            event.origin,
            f"`self.{event.name}` is a plain tensor, and forward writes to it at line {event.site.line}",
            "written",
            rewrite=_register(event.name),
            fix=_registered(event.origin.range, event.name),
        )


def _met(event: Met) -> Match:
    inside = event.stray.home.startswith(INSIDE)
    kind, _, name = event.stray.home.removeprefix(INSIDE).partition(" ")
    if kind == "list":
        text = f"`self.{name}` is a plain list, so .to() does not move the parameters in it"
        listed = fix("Make it a list that the module knows", Listed(event.site.range, name), unsafe=True)
        return Match(event.site, text, "list", "Make it an nn.ModuleList or an nn.ParameterList.", fix=listed)
    named = {"attribute": f"self.{name}", "default": f"the default of {name}"}.get(kind, name)
    meets = "which .to() does not move, and it meets tensors that follow the inputs"
    if inside:
        rewrite = f'Register each tensor: self.register_buffer(f"{name}_{{i}}", ..., persistent=False); {_CAST}'
        if kind == "global":
            rewrite = (
                f"Make the tensors where they are used, on the device of the inputs, or keep them in buffers; {_CAST}"
            )
        what = "global container" if kind == "global" else "container"
        return Match(event.site, f"the {what} `{named}` holds a plain tensor, {meets}", rewrite=rewrite)
    rewrite = _register(name)
    registered = _registered(event.site.range, name)
    moved = Followed(event.site.range, name, f"{AT_HAND}.device")
    followed = fix(f"Move it to the device of `{AT_HAND}`", moved, unsafe=True)
    made = {"attribute": registered, "default": followed}.get(kind)
    return Match(event.site, f"`{named}` is a plain tensor, {meets}", rewrite=rewrite, fix=made)


def _is_plain(value: Value) -> bool:
    return isinstance(value, Tensor) and value.kept.startswith("attribute")


_SCALED = "def forward(self, x):\n    return x * self.scale + 1"

RULE = Rule(
    code="EXP203",
    name="tensor-outside-state",
    summary="A tensor is kept as a plain attribute, so neither .to() nor the state dict knows it",
    rewrite=f"Register it: self.register_buffer(name, tensor, persistent=False); {_CAST}",
    page=__doc__,
    outcomes=outcomes(export="unportable", strict="unportable", compiled="fine"),
    variants={
        "list": Variant(
            outcomes=outcomes(export="unportable", strict="breaks", compiled="fine"),
            bad=example(
                """
                def forward(self, x):
                    for layer in self.layers:
                        x = layer(x)
                    return x
                """,
                init="self.layers = [nn.Linear(4, 4), nn.Linear(4, 4)]",
            ),
            changed={"2.14": outcomes(export="unportable", strict="unportable", compiled="fine")},
        ),
        "written": Variant(
            outcomes=outcomes(export="unportable", strict="unportable", compiled="fine"),
            bad=example(
                """
                def forward(self, x):
                    self.cache = self.cache.to(x)
                    self.cache[:2] = x
                    return self.cache * 2
                """,
                init="self.cache = torch.zeros(4, 4)",
            ),
            proof="reload",
        ),
    },
    bad=example(
        """
        def forward(self, x):
            return x * self.scale
        """,
        init="self.scale = torch.arange(4.0)",
    ),
    good=example(
        """
        def forward(self, x):
            return x * self.scale
        """,
        init="self.scale = torch.tensor(4.0)",
    ),
    fixed=example(
        """
        def forward(self, x):
            return x * self.scale
        """,
        init='self.register_buffer("scale", torch.arange(4.0), persistent=False)',
    ),
    near=(
        Near(
            variant="list",
            bad=example("def forward(self, x):\n    return self.w[0](x) + 1", init="self.w = [nn.Linear(4, 4)]"),
            good=example("def forward(self, x):\n    return self.w[0](x) + 1", init="self.w = [nn.Identity(4, 4)]"),
        ),
        Near(
            bad=example(_SCALED, init="self.scale = nn.Parameter(torch.ones(4)).data"),
            good=example(_SCALED, init="self.scale = nn.Parameter(torch.ones(4)).real"),
        ),
        Near(
            bad=example(
                """
                def forward(self, x):
                    return x - MEAN.to(x.dtype)
                """,
                above="MEAN = torch.tensor([0.1, 0.2, 0.3, 0.4])",
            ),
            good=example(
                """
                def forward(self, x):
                    return x - MEAN.to(x.device)
                """,
                above="MEAN = torch.tensor([0.1, 0.2, 0.3, 0.4])",
            ),
        ),
        Near(
            bad=example(
                """
                def forward(self, x, offset=ones(4)):
                    return x + offset
                """,
                imports="from torch import ones, tensor",
            ),
            good=example(
                """
                def forward(self, x, offset=tensor(4)):
                    return x + offset
                """,
                imports="from torch import ones, tensor",
            ),
        ),
    ),
    proof="second device",
    observed_by=(Observer(check="device"),),
    events=(Met, Changed),
    match=match,
)
