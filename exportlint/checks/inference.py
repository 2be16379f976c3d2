"""Cases of factories that nobody wrote an example call for: the inputs are inferred, tried out in eager mode, and said.

They come from what the model says of itself (``example_inputs``, ``example_input_array``), from the
config of a model of ``transformers``, or from the annotations of ``forward`` and the first layer that says a size.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from exportlint.checks.case import ModelCase, NoExampleError
from exportlint.checks.second_call import SecondCall

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import torch

    from exportlint.checks.case import Inputs

SAYS = ("example_inputs", "example_input_array")
BATCH, LENGTH = 2, 8
EXTENTS = (32, 64, 224)  # heights and widths that are tried
PLAIN: Mapping[str, Any] = {"int": 1, "float": 1.0, "bool": False, "str": ""}


@dataclass(frozen=True, slots=True)
class Proposal:
    """An example call, and where it comes from."""

    origin: str
    inputs: Inputs


def case_of(factory: Callable[..., Any], name: str) -> ModelCase:
    """The case of a module class, or of a function that returns a module; nothing is called yet."""
    inferred = Inferred(factory, name)
    return ModelCase(
        factory,
        lambda: inferred.inputs[0],
        lambda: inferred.inputs[1],
        inputs2=lambda: inferred.second.inputs,
        name=name,
        about=inferred.words,
        inferred=True,
    )


class Inferred:
    """The example call of a factory's models, found when it is first asked for."""

    def __init__(self, factory: Callable[..., Any], name: str) -> None:
        self._factory, self._name = factory, name

    @property
    def inputs(self) -> Inputs:
        """Positional and keyword arguments.

        Raises:
            ModelError: When the factory raises or returns no module.
            NoExampleError: When the model runs with none of the proposals.
        """
        return self._found.inputs

    def words(self) -> str:
        """What the example is and where it comes from, in one line."""
        args, kwargs = self.inputs
        given = [_shown(value) for value in args] + [f"{key}={_shown(value)}" for key, value in kwargs.items()]
        shown = ", ".join(given) or "none"
        return f"inputs inferred from {self._found.origin} and tried out: {shown}; {self.second.words}"

    @functools.cached_property
    def second(self) -> SecondCall:
        """A call with other sizes."""
        return SecondCall(self._model, lambda: self.inputs)

    def _model(self) -> torch.nn.Module:
        from exportlint.checks.context import ModelError, as_module

        try:
            made = self._factory()
        except Exception as error:
            raise ModelError("build") from error
        return as_module(made, self._name)

    @functools.cached_property
    def _found(self) -> Proposal:
        tried: list[str] = []
        for proposal in proposals(self._model()):
            model = self._model()
            try:
                _call(model, proposal.inputs)
            except Exception as error:
                tried.append(f"{proposal.origin} ({type(error).__name__})")
                continue
            return proposal
        what = ", ".join(dict.fromkeys(tried)) or "forward's parameters say nothing, and no layer says a size"
        raise NoExampleError(f"no example inputs could be inferred; tried: {what}. Write a ModelCase with args")


def _shown(value: Any) -> str:
    return str(tuple(value.shape)) if hasattr(value, "shape") else repr(value)


def _call(model: torch.nn.Module, inputs: Inputs) -> None:
    from exportlint.checks.context import call, fresh

    call(model, fresh(inputs))


def proposals(model: torch.nn.Module) -> Iterator[Proposal]:
    """Example calls that may work, the most trustworthy first."""
    yield from _said(model, *SAYS)
    if hasattr(getattr(model, "config", None), "model_type"):
        yield from _of_config(model)
    yield from _said(model, "dummy_inputs")  # of transformers, the same few tokens for every model
    yield from _of_layers(model)


def _said(model: torch.nn.Module, *names: str) -> Iterator[Proposal]:
    """What the model says of itself under these names: values, or functions that return them."""
    for name in names:
        value = getattr(model, name, None)
        value = value() if callable(value) and not hasattr(value, "shape") else value
        if value is not None:
            yield Proposal(name, _as_call(value))


def _as_call(value: Any) -> Inputs:
    if isinstance(value, Mapping):
        return (), dict(value)
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], tuple) and isinstance(value[1], dict):
        return value
    return (tuple(value) if isinstance(value, (tuple, list)) else (value,)), {}


def _of_config(model: torch.nn.Module) -> Iterator[Proposal]:
    from exportlint.zoo import hf_inputs

    try:
        yield Proposal("the config", ((), hf_inputs.example(model)))
    except Exception:  # it tries in vain what such a model may take; the layers may say more
        return


def _of_layers(model: torch.nn.Module) -> Iterator[Proposal]:
    """What the first layer takes that says a size, for each tensor that ``forward`` needs."""
    needed = [p for p in inspect.signature(model.forward).parameters.values() if p.default is p.empty]
    if any(p.kind is p.VAR_POSITIONAL for p in needed):
        needed = [p for p in needed if p.kind is not p.VAR_POSITIONAL]
    needed = [p for p in needed if p.kind is not p.VAR_KEYWORD]
    plain = {p.name: PLAIN[word] for p in needed if (word := _annotated(p)) in PLAIN}
    tensors = [p for p in needed if p.name not in plain]
    origin = "the annotations" if plain else ""
    if needed and not tensors:
        yield Proposal(origin, _bound(needed, plain))
    for layer, tensor in _first_layer(model):
        said = " and ".join(filter(None, (f"the first layer, {type(layer).__name__}", origin)))
        values = {p.name: _like(tensor, p.name, first=p is tensors[0]) for p in tensors}
        yield Proposal(said, _bound(needed, {**plain, **values}))


def _annotated(parameter: inspect.Parameter) -> str:
    annotation = parameter.annotation
    return annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")


def _bound(parameters: list[inspect.Parameter], values: Mapping[str, Any]) -> Inputs:
    args = tuple(values[p.name] for p in parameters if p.kind is not p.KEYWORD_ONLY)
    return args, {p.name: values[p.name] for p in parameters if p.kind is p.KEYWORD_ONLY}


def _like(tensor: torch.Tensor, name: str, *, first: bool) -> torch.Tensor:
    """The tensor for a parameter: a mask, where it is called one, lets everything through."""
    import torch

    if not first and "mask" in name:
        return torch.ones(tensor.shape[:2], dtype=torch.long)
    return tensor.clone()


def _first_layer(model: torch.nn.Module) -> Iterator[tuple[torch.nn.Module, torch.Tensor]]:
    """The first layer in the model's own order that says what it takes, with inputs for it."""
    for layer in model.modules():
        made = list(_inputs_of(layer))
        if made:
            yield from ((layer, tensor) for tensor in made)
            return


def _inputs_of(layer: Any) -> Iterator[torch.Tensor]:
    import torch
    from torch import nn

    if isinstance(layer, (nn.Embedding, nn.EmbeddingBag)):
        yield torch.arange(BATCH * LENGTH).reshape(BATCH, LENGTH) % layer.num_embeddings
    elif isinstance(layer, nn.modules.conv._ConvNd):
        for extent in EXTENTS:
            yield torch.randn(BATCH, layer.in_channels, *[extent] * len(layer.kernel_size))
    elif isinstance(layer, nn.RNNBase):
        yield torch.randn(*((BATCH, LENGTH) if layer.batch_first else (LENGTH, BATCH)), layer.input_size)
    elif isinstance(layer, nn.MultiheadAttention):
        yield torch.randn(BATCH, LENGTH, layer.embed_dim)
    elif isinstance(layer, nn.Linear):
        yield torch.randn(BATCH, layer.in_features)
        yield torch.randn(BATCH, LENGTH, layer.in_features)
    elif isinstance(layer, nn.LayerNorm):
        yield torch.randn(BATCH, LENGTH, *layer.normalized_shape)
