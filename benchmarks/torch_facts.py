"""Write the tables that tell the linter what torch's names are: ``exportlint/torch_facts/operators.json``.

    python benchmarks/torch_facts.py [OUTPUT]

The linter imports no torch, so what it must know about torch's functions is read here from the installed torch: the
type stubs say what a function returns and whether it takes a device, the operator tags and a run on fake tensors say
which outputs have a size or a value that depends on data, and the classes of ``torch.nn`` say what modules return.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv, free_unbacked_symbols

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FOLDER = Path(__file__).parent.parent / "exportlint" / "torch_facts"
NUMBERS = {"int", "float", "complex", "Number", "_int", "_float", "_complex", "Union[int, float]"}
DOCUMENTED = ("torch", "torch.linalg", "torch.fft", "torch.special", "torch.nn.functional")


def kind(annotation: str) -> str:
    """One of ``tensor``, ``tensors``, ``bool``, ``number``, ``other``, for the text of a return annotation."""
    text = annotation.replace("torch.", "").strip("\"' :")
    if text in ("Tensor", "Self", "LongTensor"):
        return "tensor"
    if text in ("bool", "_bool"):
        return "bool"
    if text in NUMBERS:
        return "number"
    if "Tensor" in text or "return_types" in annotation or text.startswith("return_types"):
        return "tensors"
    return "other"


def merged(kinds: set[str]) -> str:
    """The kind of all overloads together."""
    return "tensor|tensors" if kinds == {"tensor", "tensors"} else kinds.pop() if len(kinds) == 1 else "other"


def stub_functions(body: list[ast.stmt]) -> dict[str, list[ast.FunctionDef]]:
    """The overloads of each function of a stub, or of a class in it."""
    found: dict[str, list[ast.FunctionDef]] = {}
    for node in body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("__"):
            found.setdefault(node.name, []).append(node)
    return found


def described(overloads: list[ast.FunctionDef]) -> dict[str, Any]:
    """What the stub says: kind of result, whether it takes a device, whether it takes a tensor."""
    parameters = [p for o in overloads for p in (*o.args.posonlyargs, *o.args.args, *o.args.kwonlyargs)]
    texts = {p.arg: ast.unparse(p.annotation) for p in parameters if p.annotation is not None}
    return {
        "returns": merged({kind(ast.unparse(o.returns)) for o in overloads if o.returns is not None} or {"other"}),
        "device": "device" in texts,
        "takes_tensor": any("Tensor" in text for name, text in texts.items() if name != "out"),
    }


def from_stubs() -> tuple[dict[str, Any], dict[str, Any]]:
    """Functions by dotted name, and tensor methods by name, as the type stubs describe them."""
    stubs = Path(torch.__file__).parent
    functions: dict[str, Any] = {}
    for module, stub in (("torch", "_C/_VariableFunctions.pyi"), ("torch.nn.functional", "nn/functional.pyi")):
        tree = ast.parse((stubs / stub).read_text(encoding="utf-8"))
        for name, overloads in stub_functions(tree.body).items():
            functions[f"{module}.{name}"] = described(overloads)
    tree = ast.parse((stubs / "_C" / "__init__.pyi").read_text(encoding="utf-8"))
    base = next(n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == "TensorBase")
    return functions, {n: described(overloads) for n, overloads in stub_functions(base.body).items()}


def from_documentation(known: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Functions that no stub holds, by the signature at the head of their documentation or their annotations."""
    for module in DOCUMENTED:
        space = sys.modules[module]
        for name in dir(space):
            function = getattr(space, name)
            dotted = f"{module}.{name}"
            if dotted in known or name.startswith("_") or inspect.isclass(function) or not callable(function):
                continue
            text = re.search(rf"\b{name}\((.*?)\) ?-> ?(.+)", inspect.getdoc(function) or "", re.DOTALL)
            returns = kind(text.group(2).splitlines()[0] if text else annotated(function))
            if returns == "other" and name in torch.functional.__all__:
                returns = observed(function)
            if returns != "other":
                arguments = text.group(1) if text else ""
                yield dotted, {"returns": returns, "device": "device=" in arguments, "takes_tensor": True}


def from_class(known: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Tensor methods that are written in Python, so that no stub holds them, by a small run."""
    for name in dir(torch.Tensor):
        if name not in known and not name.startswith("_") and inspect.isfunction(getattr(torch.Tensor, name)):
            returns = observed(getattr(torch.Tensor, name))
            if returns != "other":
                yield name, {"returns": returns, "device": False, "takes_tensor": False}


def observed(function: Callable[..., Any]) -> str:
    """The kind of what a run on one to three small tensors returns, or ``other`` where it wants something else."""
    matrix, row = torch.rand(2, 2), torch.rand(2)
    for arguments in ((matrix,), (matrix, matrix), (matrix, 1), (row, row)):
        try:
            result = function(*arguments)
        except Exception:  # it wants other arguments
            continue
        if isinstance(result, torch.Tensor):
            return "tensor"
        if isinstance(result, (tuple, list)) and result and isinstance(result[0], torch.Tensor):
            return "tensors"
        return "bool" if isinstance(result, bool) else "number" if isinstance(result, (int, float)) else "other"
    return "other"


def annotated(function: Callable[..., Any]) -> str:
    """The text of the return annotation; empty where there is none."""
    try:
        returns = inspect.signature(function).return_annotation
    except (TypeError, ValueError):
        return ""
    if returns is inspect.Signature.empty:
        return ""
    return returns if isinstance(returns, str) else getattr(returns, "__name__", str(returns))


def tagged(tag: torch.Tag) -> set[str]:
    """Names of the operators of which an overload has the tag."""
    names: set[str] = set()
    for name in dir(torch.ops.aten):
        packet = getattr(torch.ops.aten, name)
        overloads = packet.overloads() if hasattr(packet, "overloads") else ()
        if any(tag in getattr(packet, overload).tags for overload in overloads):
            names.add(name)
    return names


def counted(functions: dict[str, Any]) -> set[str]:
    """Functions whose result, on one fake tensor or two, has a size that depends on data."""
    found: set[str] = set()
    mode = FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True)
    with mode:
        samples = (torch.ones(4, dtype=torch.long), torch.ones(4, dtype=torch.bool))
    for dotted in functions:
        function = getattr(sys.modules[dotted.rpartition(".")[0]], dotted.rpartition(".")[2], None)
        for arguments in ((samples[0],), (samples[0], samples[1])):
            if function is not None and depends_on_data(mode, function, arguments):
                found.add(dotted.rpartition(".")[2])
    return found


def depends_on_data(mode: FakeTensorMode, function: Callable[..., Any], arguments: tuple[torch.Tensor, ...]) -> bool:
    """Whether a result of this call has an unbacked size."""
    try:
        with mode:
            result = function(*arguments)
    except Exception:  # most functions want other arguments; those say nothing
        return False
    leaves = result if isinstance(result, (tuple, list)) else (result,)
    return any(isinstance(t, torch.Tensor) and free_unbacked_symbols(tuple(t.shape)) for t in leaves)


def shaped(wanted: Callable[[torch.Tensor, torch.Tensor], bool]) -> Iterator[str]:
    """Tensor methods and functions of that name, whose result on one tensor has the shape that is wanted."""
    samples = [torch.rand(2), torch.rand(1, 2), torch.rand(2, 3, 4)]
    for name in dir(torch.Tensor):
        if name.startswith(("_", "to", "share", "pin", "cuda", "cpu", "xpu", "ipu", "retain", "register")):
            continue
        try:
            results = [getattr(s.clone(), name)() for s in samples]
        except Exception:  # most methods want other arguments
            continue
        if all(isinstance(r, torch.Tensor) and wanted(s, r) for s, r in zip(samples, results, strict=True)):
            yield name


def result_fields() -> set[str]:
    """The names of the parts of results that are several tensors, such as ``values`` and ``indices``."""
    kinds = [getattr(torch.return_types, name) for name in dir(torch.return_types)]
    return {field for kind in kinds if isinstance(kind, type) for field in getattr(kind, "__match_args__", ())}


def modules_that_keep_shape() -> Iterator[str]:
    """Classes of ``torch.nn`` that need no argument and return a tensor of the shape that they are given."""
    for name in modules():
        try:
            module = getattr(torch.nn, name.rpartition(".")[2])()
            if all(module(torch.rand(shape)).shape == shape for shape in ((2, 3), (2, 3, 4))):
                yield name
        except Exception:  # it wants other arguments
            continue


def modules() -> dict[str, str]:
    """What the forward of each public class of ``torch.nn`` returns."""
    found: dict[str, str] = {}
    for name in dir(torch.nn):
        cls = getattr(torch.nn, name)
        if inspect.isclass(cls) and issubclass(cls, torch.nn.Module):
            if issubclass(cls, torch.nn.RNNBase):
                found[f"torch.nn.{name}"] = "recurrent"
            elif name in ("Sequential", "ModuleList", "ModuleDict", "ParameterList", "ParameterDict"):
                found[f"torch.nn.{name}"] = "container"
            else:
                text = annotated(cls.forward)
                pooling = name.startswith(("AdaptiveMaxPool", "MaxPool", "FractionalMaxPool"))
                found[f"torch.nn.{name}"] = "tensor" if pooling else kind(text)
    return found


def main() -> int:
    """Write the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("output", nargs="?", type=Path, default=FOLDER / "operators.json")
    output = parser.parse_args().output
    functions, methods = from_stubs()
    functions.update(from_documentation(functions))
    methods.update(from_class(methods))
    tensor_classes = [n for n in dir(torch) if isinstance(getattr(torch, n), type(torch.FloatTensor))]
    shape = tagged(torch.Tag.dynamic_output_shape) | counted(functions)
    table = {
        "torch": torch.__version__.partition("+")[0],
        "functions": dict(sorted(functions.items())),
        "methods": dict(sorted(methods.items())),
        "constructors": [f"torch.{n}" for n in ("Tensor", *sorted(tensor_classes)) if "cuda" not in n],
        "data_dependent_size": sorted(shape),
        "data_dependent_value": sorted(tagged(torch.Tag.data_dependent_output)),
        "reductions": sorted(shaped(lambda given, result: not result.shape)),
        "keeps_shape": sorted(shaped(lambda given, result: result.shape == given.shape)),
        "result_fields": sorted(result_fields()),
        "modules": modules(),
        "modules_with_parameters": [
            name for name in modules() if hasattr(getattr(torch.nn, name.rpartition(".")[2]), "reset_parameters")
        ],
        "module_keeps_shape": sorted(modules_that_keep_shape()),
    }
    temporary = output.with_suffix(".tmp")
    temporary.write_text(json.dumps(table, indent=0, sort_keys=False) + "\n", encoding="utf-8")
    temporary.replace(output)
    print(f"{output}: {len(functions)} functions, {len(methods)} methods, torch {table['torch']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
