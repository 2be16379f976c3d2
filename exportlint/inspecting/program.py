"""Programs that ``torch.export.save`` wrote, read as JSON."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from exportlint.inspecting import tables
from exportlint.inspecting.description import Argument, InspectError, Method, Tensor

if TYPE_CHECKING:
    from collections.abc import Iterator

    from exportlint.inspecting.archive import Archive

OLD = "serialized_exported_program.json"
GRAPHS = 10_000  # nested ones
EXPRESSION = 2000  # characters; what is nested in it is resolved a level at a time
FRAME = re.compile(r'File "([^"\n]+)", line \d+')
OWN_CONTAINERS = ("builtins.", "collections.")
ROLES = {"parameter": "parameter_name", "buffer": "buffer_name", "tensor_constant": "tensor_constant_name"}


def programs(archive: Archive) -> dict[str, str]:
    """Members that are programs, by the name of their method, in today's layout and in that before torch 2.8.

    Raises:
        InspectError: When one has no name.
    """
    found = {}
    for name in archive.names():
        if name.startswith("models/") and name.endswith(".json"):
            found[name.removeprefix("models/").removesuffix(".json")] = name
    if not found and OLD in archive.names():
        found["model"] = OLD
    if "" in found:
        raise InspectError("holds a program without a name")
    return found


def version(program: dict[str, Any]) -> tuple[str | None, str]:
    """Version of torch and of the schema."""
    schema = program.get("schema_version") or {}
    numbers = [str(schema[key]) for key in ("major", "minor") if key in schema] if isinstance(schema, dict) else []
    torch = program.get("torch_version")
    return (str(torch)[:40] if torch and torch != "<=2.4" else None), f"schema {'.'.join(numbers)}" if numbers else ""


def contents(name: str, program: dict[str, Any]) -> tuple[Method, tuple[Tensor, ...]]:
    """What a program takes, calls and returns; and its parameters, buffers and constants.

    Raises:
        InspectError: When it has another form than torch writes.
    """
    try:
        return _method(name, program), tuple(_tensors(program["graph_module"]))
    except (KeyError, TypeError, AttributeError, IndexError, ValueError, OverflowError) as error:
        words = f"{type(error).__name__}: {str(error)[:80]}"
        raise InspectError(f"the program {name} has a form that this release cannot read ({words})") from error


def _method(name: str, program: dict[str, Any]) -> Method:
    module = program["graph_module"]
    graphs = list(_graphs(module["graph"]))
    return Method(
        name=name,
        inputs=tuple(_inputs(module)),
        ranges=tuple(_ranges(program.get("range_constraints") or {})),
        operators=tuple(sorted(_operators(graphs).items(), key=lambda item: (-item[1], item[0]))),
        devices=tuple(sorted({_device(v.get("device")) for g in graphs for v in g["tensor_values"].values()})),
        containers=tuple(_containers(module)),
        sources=tuple(_sources(graphs)),
    )


def _tensors(module: dict[str, Any]) -> Iterator[Tensor]:
    values = module["graph"]["tensor_values"]
    for spec in module["signature"]["input_specs"]:
        (kind, content), *_ = spec.items()
        if kind in ROLES:
            meta = values.get(content["arg"]["name"], {})
            role = "constant" if kind == "tensor_constant" else kind
            yield Tensor(
                name=str(content[ROLES[kind]])[:500],
                dtype=tables.dtype(meta.get("dtype")),
                shape=tuple(map(_size, meta.get("sizes", ()))),
                device=_device(meta.get("device")),
                role=role,
            )


def _graphs(graph: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A graph and those nested in it."""
    stack, count = [graph], 0
    while stack and count < GRAPHS:
        current, count = stack.pop(), count + 1
        yield current
        for node in current["nodes"]:
            for given in node["inputs"]:
                nested = given["arg"].get("as_graph")
                if nested:
                    stack.append(nested["graph"])


def _operators(graphs: list[dict[str, Any]]) -> Counter[str]:
    return Counter(_operator(str(node["target"])) for graph in graphs for node in graph["nodes"])


def _operator(target: str) -> str:
    """``aten::add.Tensor`` for ``torch.ops.aten.add.Tensor``; Python's own functions as they are."""
    parts = target.removeprefix("torch.ops.").split(".")
    if not target.startswith("torch.ops.") or len(parts) < 2:
        return target[:200]
    overload = "." + ".".join(parts[2:]) if parts[2:] and parts[2:] != ["default"] else ""
    return f"{parts[0]}::{parts[1]}{overload}"[:200]


def _inputs(module: dict[str, Any]) -> Iterator[Argument]:
    graph = module["graph"]
    for spec in module["signature"]["input_specs"]:
        (kind, content), *_ = spec.items()
        if kind == "constant_input":
            value = json.dumps(next(iter(content["value"].values()), None))
            yield Argument(name=str(content["name"])[:200], what=f"constant {value[:80]}")
        elif kind == "user_input":
            (form, given), *_ = content["arg"].items()
            name = given.get("name") or given.get("as_name") or "?" if isinstance(given, dict) else "?"
            yield Argument(name=str(name)[:200], what=_what(form, str(name), given, graph))


def _what(form: str, name: str, given: Any, graph: dict[str, Any]) -> str:
    if form == "as_tensor":
        meta = graph["tensor_values"].get(name, {})
        shape = ", ".join(str(_size(size)) for size in meta.get("sizes", ()))
        return f"{tables.dtype(meta.get('dtype'))} [{shape}] on {_device(meta.get('device'))}"
    if form in ("as_sym_int", "as_sym_float", "as_sym_bool"):
        value = graph.get(f"{form.removeprefix('as_')}_values", {}).get(name, {})
        symbol = (value.get("as_expr") or {}).get("expr_str", name) if isinstance(value, dict) else name
        words = {"as_sym_int": "integer", "as_sym_float": "float", "as_sym_bool": "bool"}
        return f"{words[form]} {_plain(str(symbol))}"
    if form in ("as_custom_obj", "as_string", "as_none"):
        return form.removeprefix("as_").replace("_", " ")
    return f"constant {json.dumps(given)[:80]}"


def _size(size: dict[str, Any]) -> int | str:
    if "as_int" in size:
        return int(size["as_int"])
    return _plain(str(size["as_expr"]["expr_str"]))


def _plain(expression: str) -> str:
    """An expression without the classes of sympy's ``srepr``, as far as it is simple and short."""
    if len(expression) > EXPRESSION:
        return expression[:120]
    text = re.sub(r"Symbol\('(\w+)'(?:, \w+=\w+)*\)", r"\1", expression)
    text = re.sub(r"Integer\((-?\d+)\)", r"\1", text)
    while True:
        shorter = re.sub(r"\b(Mul|Add)\(([^()]*)\)", _infix, text)
        if shorter == text:
            return text[:120]
        text = shorter


def _infix(match: re.Match[str]) -> str:
    parts = match[2].split(", ")
    return "*".join(parts) if match[1] == "Mul" else " + ".join(parts)


def _ranges(ranges: dict[str, Any]) -> Iterator[tuple[str, int | None, int | None]]:
    for symbol, bounds in sorted(ranges.items()):
        least, most = bounds.get("min_val"), bounds.get("max_val")
        yield _plain(str(symbol)), least if isinstance(least, int) else None, most if isinstance(most, int) else None


def _device(device: Any) -> str:
    if not isinstance(device, dict):
        return "?"
    index = device.get("index")
    return str(device.get("type"))[:40] + (f":{index}" if isinstance(index, int) else "")


def _containers(module: dict[str, Any]) -> list[str]:
    """Classes of the containers that the inputs and outputs consist of, but for Python's own."""
    found: dict[str, None] = {}
    for call in module.get("module_call_graph") or ():
        signature = call.get("signature") or {}
        for key in ("in_spec", "out_spec"):
            found.update(dict.fromkeys(_types(str(signature.get(key) or ""))))
    return [name for name in found if not name.startswith(OWN_CONTAINERS)]


def _types(spec: str) -> Iterator[str]:
    try:
        stack = [json.loads(spec)] if spec else []
    except (ValueError, RecursionError):
        return
    while stack:
        part = stack.pop()
        if isinstance(part, list):
            stack.extend(part)
        elif isinstance(part, dict):
            if isinstance(part.get("type"), str):
                yield part["type"][:200]
            stack.append(part.get("children_spec"))


def _sources(graphs: list[dict[str, Any]]) -> list[str]:
    """Files in the recorded stacks, the innermost of each node, by how often."""
    counts: Counter[str] = Counter()
    for graph in graphs:
        for node in graph["nodes"]:
            frames = FRAME.findall(str((node.get("metadata") or {}).get("stack_trace") or ""))
            counts.update(frame[:300] for frame in [f for f in frames if not f.startswith("<")][-1:])
    return [name for name, _ in counts.most_common(20)]
