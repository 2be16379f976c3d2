"""Runs examples and says what torch made of them: the worker of the proof suite.

    python observing.py JOBS.json RESULTS.json

A job is ``{"id", "source", "proof"}``; a result is the outcome in each capture mode, or the reason why there is none.
With ``"like"``, another source instead of a proof, it is whether both compute the same in eager; with ``"fixed"``, the
same bit for bit, and whether both have the same state dict.
"""

from __future__ import annotations

import contextlib
import io
import json
import random
import sys
import traceback
import types
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

sys.path.insert(0, str(Path(__file__).parent))


class Example:
    """An example's file, run anew: nothing that an earlier run left behind is seen."""

    count = 0

    def __init__(self, source: str) -> None:
        if "torch.library" in source:
            source = _own_namespace(source)
        # TorchDynamo remembers modules by name, so each gets a name of its own.
        Example.count += 1
        name = f"example_{Example.count}"
        self.module = types.ModuleType(name)
        self.module.__file__ = str(Path(__file__).parent / f"{name}.py")
        sys.modules[name] = self.module
        code = compile(source, self.module.__file__, "exec")
        exec(code, self.module.__dict__)
        self.model = self.module.build()

    def call(self, runner: Any, which: str = "inputs") -> Any:
        """Run something on example inputs, with the same random numbers each time."""
        given = getattr(self.module, which)()
        random.seed(5)
        torch.manual_seed(5)
        with torch.no_grad():
            return pytree.tree_map(lambda t: t.clone() if isinstance(t, torch.Tensor) else t, runner(*given))


def _own_namespace(source: str) -> str:
    """The source with its operators in a namespace of their own: an operator can be defined once in a process."""
    return source.replace("example_", f"example_{Example.count}_")


def same(left: Any, right: Any) -> bool:
    """Whether two results are equal, up to rounding."""
    first, spec = pytree.tree_flatten(left)
    second, other = pytree.tree_flatten(right)
    if len(first) != len(second) or str(spec) != str(other):
        return False
    return all(same_leaf(a, b) for a, b in zip(first, second, strict=True))


def same_leaf(left: Any, right: Any) -> bool:
    """Whether two results without structure that torch knows are equal: by what is in them, if they are objects."""
    if isinstance(left, torch.Tensor) and isinstance(right, torch.Tensor):
        return torch.allclose(left.double(), right.double(), equal_nan=True) and left.shape == right.shape
    if isinstance(left, (set, Iterator)) and isinstance(right, (set, Iterator)):
        return same(list(left), list(right))
    if hasattr(left, "__dict__") and type(left).__name__ == type(right).__name__:
        return same(vars(left), vars(right))
    return bool(left == right)


def dynamic_shapes(first: tuple[Any, ...], second: tuple[Any, ...]) -> Any:
    """A request for each dimension in which the two examples differ; ``None`` where they do not differ."""

    def dims(a: Any, b: Any) -> Any:
        if not isinstance(a, torch.Tensor):
            return None
        return {i: torch.export.Dim.DYNAMIC for i in range(a.dim()) if a.shape[i] != b.shape[i]}

    wanted = tuple(dims(a, b) for a, b in zip(first, second, strict=True))
    return wanted if any(d for d in wanted if isinstance(d, dict)) else None


def requested(source: str, given: tuple[Any, ...]) -> Any:
    """The example's own request for dynamic shapes, or the one that its second call asks for."""
    module = Example(source).module
    return getattr(module, "DYNAMIC_SHAPES", None) or dynamic_shapes(given, module.inputs2())


def references(source: str) -> tuple[Any, Any] | None:
    """Both calls of the eager model; ``None`` where it does not run."""
    eager = Example(source)
    try:
        return eager.call(eager.model), eager.call(eager.model, "inputs2")
    except Exception:  # a device that is not there, for instance
        return None


def exported(source: str, proof: str, *, strict: bool) -> tuple[str, str]:
    """The outcome of ``torch.export``, and why."""
    wanted = references(source)
    example = Example(source)
    given = example.module.inputs()
    random.seed(0)
    try:
        program = torch.export.export(example.model, given, strict=strict)
        program.module()
    except Exception as error:  # whatever it is, the capture broke
        return "breaks", repr(error)[:300]
    shapes = requested(source, given)
    if shapes is not None:
        try:
            fresh = Example(source)
            program = torch.export.export(fresh.model, fresh.module.inputs(), dynamic_shapes=shapes, strict=strict)
            example = fresh
        except Exception as error:
            return "specialises", repr(error)[:300]
    return judged(example, program, wanted) or elsewhere(source, proof, program)


def judged(example: Example, program: Any, wanted: tuple[Any, Any] | None) -> tuple[str, str] | None:
    """What is wrong with the program beside the eager model, if anything is."""
    module = program.module()
    if wanted is None:
        return "breaks", "eager does not run"
    try:
        found = example.call(module), example.call(module, "inputs2")
    except Exception as error:
        return "specialises", repr(error)[:300]
    if any(type(t).__name__ == "FakeTensor" for t in pytree.tree_leaves(found)):
        return "breaks", "the program returns fake tensors"
    return None if same(found, wanted) else ("silent", f"{found} is not {wanted}"[:300])


def elsewhere(source: str, proof: str, program: Any) -> tuple[str, str]:
    """Whether a program that is right here is right elsewhere, as far as the kind of proof asks for it."""
    if proof == "second device":
        named = [n for n in program.graph.nodes if "autocast" in str(n.target) and n.args[0] != "cpu"]
        return ("unportable", f"{named} is for another device") if named else on_second_device(source)
    return lowered(program) if proof == "reload" else ("fine", "")


def on_second_device(source: str) -> tuple[str, str]:
    """Whether the eager model runs on the second device, with the CPU's numbers."""
    from exportlint.devices import DeviceMismatchError, move_module, to_cpu, to_second

    example = Example(source)
    try:
        with torch.no_grad():
            result = to_cpu(move_module(example.model)(*to_second(example.module.inputs())))
    except DeviceMismatchError as error:
        return "unportable", repr(error)[:300]
    plain = Example(source)
    return ("fine", "") if same(result, plain.call(plain.model)) else ("unportable", "other numbers")


def lowered(program: Any) -> tuple[str, str]:
    """Whether the program can be lowered, saved and loaded."""
    try:
        buffer = io.BytesIO()
        torch.export.save(program, buffer)
        buffer.seek(0)
        torch.export.load(buffer)
        program.run_decompositions()
    except Exception as error:
        return "unportable", repr(error)[:300]
    return "fine", ""


def compiled(source: str) -> tuple[str, str]:
    """The outcome of ``torch.compile`` with a whole graph, and why."""
    wanted = references(source)
    torch._dynamo.reset()
    example = Example(source)
    runner = torch.compile(example.model, backend="eager", fullgraph=True)
    try:
        found = example.call(runner), example.call(runner, "inputs2")
    except Exception as error:
        return "breaks", repr(error)[:300]
    if wanted is None:
        return "breaks", "eager does not run"
    return ("fine", "") if same(found, wanted) else ("silent", f"{found} is not {wanted}"[:300])


def built(source: str) -> tuple[str, str]:
    """Whether a model that is saved and loaded can be built, and computes what the saved one does."""
    try:
        example = Example(source)
        found = example.call(example.model)
    except Exception as error:
        return "unportable", repr(error)[:300]
    if not hasattr(example.module, "saved"):
        return "fine", ""
    wanted = example.call(example.module.saved())
    return ("fine", "") if same(found, wanted) else ("silent", f"{found} is not {wanted}"[:300])


def observe(source: str, proof: str) -> dict[str, tuple[str, str]]:
    """The outcome in each mode, and why."""
    if proof == "build":
        return dict.fromkeys(("export", "export-strict", "compile"), built(source))
    if proof == "run":
        try:
            compile(source, "example.py", "exec")
        except SyntaxError as error:
            return dict.fromkeys(("export", "export-strict", "compile"), ("breaks", str(error)))
        return dict.fromkeys(("export", "export-strict", "compile"), ("fine", ""))
    return {
        "export": exported(source, proof, strict=False),
        "export-strict": exported(source, proof, strict=True),
        "compile": compiled(source),
    }


def alike(source: str, other: str) -> dict[str, list[str]]:
    """Whether an example computes in eager what another one does, with the same random numbers, in both calls.

    Raises:
        Exception: Where the example does not run.
    """
    try:
        example = Example(other)
        wanted = example.call(example.model), example.call(example.model, "inputs2")
    except Exception as error:  # a model that does not run, for instance
        return {"eager": ["nothing to compare with", repr(error)[:300]]}
    example = Example(source)
    found = example.call(example.model), example.call(example.model, "inputs2")
    return {"eager": ["same" if same(found, wanted) else "differs", f"{found} beside {wanted}"[:300]]}


def parts(value: Any) -> list[Any]:
    """The leaves of a result, whether torch knows the classes in it or not."""
    leaves = pytree.tree_leaves(value)
    opened = [parts(vars(leaf)) if hasattr(leaf, "__dataclass_fields__") else [leaf] for leaf in leaves]
    return [part for each in opened for part in each]


def rewritten(source: str, other: str) -> dict[str, list[str]]:
    """Whether an example computes bit for bit what another one does, which it was made of, and keeps its state dict."""
    try:
        before = Example(other)
    except Exception as error:  # a model that cannot be built, for instance
        return {"eager": ["nothing to compare with", repr(error)[:300]]}
    after = Example(source)
    kept = list(before.model.state_dict()) == list(after.model.state_dict())
    state = {"state dict": ["same" if kept else "differs", f"{[*after.model.state_dict()]}"]}
    wanted = references(other)
    if wanted is None:
        return {"eager": ["nothing to compare with", ""], **state}
    found = after.call(after.model), after.call(after.model, "inputs2")
    pairs = zip(parts(found), parts(wanted), strict=True)
    equal = all(torch.equal(a, b) if isinstance(a, torch.Tensor) else bool(a == b) for a, b in pairs)
    return {"eager": ["same" if equal else "differs", f"{found} beside {wanted}"[:300]], **state}


def _done(job: dict[str, str]) -> Any:
    if "like" in job:
        return alike(job["source"], job["like"])
    if "fixed" in job:
        return rewritten(job["source"], job["fixed"])
    return observe(job["source"], job["proof"])


def main() -> None:
    """Observe every job."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    results: dict[str, Any] = {}
    Path(sys.argv[2]).write_text("{}", encoding="utf-8")
    for job in json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")):
        try:
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                results[job["id"]] = _done(job)
        except Exception:  # an example that is itself wrong must fail its own test only
            results[job["id"]] = {"error": traceback.format_exc()[-1500:]}
        Path(sys.argv[2]).write_text(json.dumps(results), encoding="utf-8")


if __name__ == "__main__":
    main()
