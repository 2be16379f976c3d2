"""The private hooks of torch that the second device stands on, in one place.

Everything that may change from one release of torch to the next is here: `unavailable` says whether this torch has
all of it, `register` uses it. Registration is process-wide and cannot be undone, so checks do it in a worker process.
"""

from __future__ import annotations

import contextlib
import functools
import operator
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

from exportlint.torch_hooks import generators

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    Run = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]

NAME = "second"
OLDEST = (2, 10)

_UNNAMED = "privateuseone"
_NEEDED = (
    "utils.backend_registration.rename_privateuse1_backend",
    "utils.backend_registration.generate_methods_for_privateuse1_backend",
    "utils.backend_registration._DummyBackendModule",
    "utils.backend_registration._DummyPrivateUse1Hook",
    "utils.backend_registration._DummyDeviceGuard",
    "_register_device_module",
    "_C._acc.register_python_privateuseone_hook",
    "_C._acc.register_python_privateuseone_device_guard",
    "_C._get_privateuse1_backend_name",
    "_C._accelerator_getAccelerator",
    "_C._jit_get_all_schemas",
    "_C._dispatch_has_kernel_for_dispatch_key",
    "_C._dispatch_get_registrations_for_dispatch_key",
    "library.get_kernel",
    "_utils._rebuild_device_tensor_from_cpu_tensor",
    "_utils._rebuild_parameter",
    "autograd._engine_run_backward",
    "autograd.graph._engine_run_backward",
    "_C._ExcludeDispatchKeyGuard",
    "_C.DisableTorchFunctionSubclass",
    "_C._disabled_torch_function_impl",
    "Tensor._make_wrapper_subclass",
    "_subclasses.fake_tensor.FakeTensor",
    "_subclasses.fake_tensor._check_for_subclass_arg",
    "fx.experimental.proxy_tensor.HANDLED_TYPES",
    "compiler._is_compiling_flag",
    "compiler._is_exporting_flag",
)
# Kernels that dispatch on PrivateUse1 while the Python key is excluded, where a fallback is not reached.
_NEVER_FALL_BACK = frozenset({"copy_", "_local_scalar_dense"})
# Of the operators that the CPU's autocast casts for: those that it computes in lower precision, and those that it
# computes in the widest dtype among their arguments; the others are computed in float32.
_LOWER_PRECISION = frozenset(
    {"mm", "bmm", "addmm", "baddbmm", "addbmm", "_addmm_activation", "matmul", "linear", "linalg_vecdot", "prelu"}
    | {"conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "conv_tbc"}
    | {"_convolution", "mkldnn_rnn_layer", "scaled_dot_product_attention", "_native_multi_head_attention"}
)
_WIDEST = frozenset({"cat", "stack", "index_copy"})
# Composites that do something else inside for subclasses of tensors than for others: they are not taken apart.
_WHOLE = (torch.ops.aten.ctc_loss.Tensor,)
# Kernels that autocast passes over, and that call operators which it casts for.
_CASTS_WITHIN = ("_transformer_encoder_layer_fwd",)
_within: list[torch.dtype] = []
_accelerator_before: list[torch.device | None] = []  # what this machine has besides
_kept: list[Any] = []  # torch does not own what is registered from Python


def unavailable() -> str | None:
    """Why the second device cannot be registered in this process; `None` when it can."""
    release = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
    if release < OLDEST:
        return f"the second device needs torch {OLDEST[0]}.{OLDEST[1]} or newer, this is {torch.__version__}"
    missing = next((name for name in _NEEDED if not _has(name)), None)
    if missing is not None:
        return f"the second device needs torch.{missing}, which torch {torch.__version__} lacks"
    owner = torch._C._get_privateuse1_backend_name()
    if not _kept and (owner != _UNNAMED or hasattr(torch, _UNNAMED)):
        return f"another backend, {owner}, owns the device type PrivateUse1 in this process"
    return None


def _has(name: str) -> bool:
    try:
        import torch.fx.experimental.proxy_tensor
        import torch.utils.backend_registration

        operator.attrgetter(name)(torch)
    except (AttributeError, ImportError):
        return False
    return True


def register(
    run: Run,
    wrapper: type[torch.Tensor],
    refuse_generator: Callable[[str], None],
    meta_kernels: Mapping[str, Callable[..., Any]] = MappingProxyType({}),
) -> torch.device:
    """Register the second device in this process, once.

    Args:
        run: Computes an operator, called as ``run(operator, args, kwargs)`` when a tensor or device of the second
            device takes part.
        wrapper: The tensor subclass whose instances live on the second device.
        refuse_generator: Called with an operator that is to draw numbers for the CPU with a generator of the second
            device.
        meta_kernels: Functions for ``aten`` operators that only devices other than the CPU reach, and that torch has
            no kernel without data for.

    Returns:
        The second device.

    Raises:
        RuntimeError: When `unavailable` has a reason.
    """
    reason = unavailable()
    if reason is not None:
        raise RuntimeError(reason)
    if not _kept:
        _register_backend()
        _do_nothing_for_accelerators()
        _register_operators(run, meta_kernels)
        run_control_flow(wrapper)
        _admit_to_tracing(wrapper)
        generators.stand_in(torch.device(NAME, 0), refuse_generator)
        _load_checkpoints()
        _keep_ties()
        _refuse_backward()
    return torch.device(NAME, 0)


@contextlib.contextmanager
def hidden() -> Iterator[None]:
    """Within it, ``torch.accelerator`` knows nothing of the second device; tensors there work as ever."""
    find = torch._C._accelerator_getAccelerator
    core: Any = torch._C
    if _kept:
        core._accelerator_getAccelerator = lambda: _accelerator_before[0]
    try:
        yield
    finally:
        core._accelerator_getAccelerator = find


def _register_backend() -> None:
    from torch.utils import backend_registration

    class Backend(backend_registration._DummyBackendModule):
        """The module ``torch.second``: what torch asks a backend for."""

        def get_amp_supported_dtype(self) -> list[torch.dtype]:
            return [torch.float16, torch.bfloat16, torch.float32]

        def manual_seed(self, seed: int) -> None:
            """Random numbers are drawn by the CPU's generator, which torch seeds itself."""

        def set_device(self, *_: object) -> None:
            """There is one device."""

        def device(self, *_: object) -> contextlib.AbstractContextManager[None]:
            return contextlib.nullcontext()

        def synchronize(self, *_: object) -> None:
            """Every operator has finished when it returns."""

        def empty_cache(self) -> None:
            """Nothing is cached."""

        def get_rng_state(self, *_: object) -> torch.Tensor:
            return torch.get_rng_state()

        def set_rng_state(self, state: torch.Tensor, *_: object) -> None:
            torch.set_rng_state(state)

        def is_bf16_supported(self, *_: object, **__: object) -> bool:
            return True

    _accelerator_before.append(torch._C._accelerator_getAccelerator())
    backend_registration.rename_privateuse1_backend(NAME)
    # Nothing on tensors and modules: a method ``second`` of torch's classes would hide a layer of that name.
    backend_registration.generate_methods_for_privateuse1_backend(
        for_tensor=False, for_module=False, for_packed_sequence=False, for_storage=True
    )
    torch._register_device_module(NAME, Backend())  # type: ignore[no-untyped-call]
    hook, guard = backend_registration._DummyPrivateUse1Hook(), backend_registration._DummyDeviceGuard()
    torch._C._acc.register_python_privateuseone_hook(hook)
    torch._C._acc.register_python_privateuseone_device_guard(guard)
    torch.set_autocast_dtype(NAME, torch.get_autocast_dtype("cpu"))
    _kept.extend((hook, guard))


def _do_nothing_for_accelerators() -> None:
    """Let ``torch.accelerator`` wait for the second device and empty its cache, of which C++ knows nothing."""
    core: Any = torch._C

    def unless_second(function: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any) -> Any:
            acc = core._accelerator_getAccelerator()
            return None if acc is not None and acc.type == NAME else function(*args)

        return called

    for name in ("_accelerator_synchronizeDevice", "_accelerator_isAllocatorInitialized"):
        if hasattr(core, name):  # a torch without it has nothing that would ask
            setattr(core, name, unless_second(getattr(core, name)))


def _register_operators(run: Run, meta_kernels: Mapping[str, Callable[..., Any]]) -> None:
    """A fallback for all operators, and a kernel of its own for those that cannot reach the fallback."""
    library: Any = torch.library.Library
    everything = library("_", "IMPL")
    everything.fallback(lambda op, *args, **kwargs: run(op, args, kwargs), "PrivateUse1")
    everything.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
    aten = library("aten", "IMPL")
    for op in factories():
        # An operator without a kernel slot for the key (composite on purpose) refuses; the fallback serves it.
        with contextlib.suppress(RuntimeError):
            aten.impl(op, functools.partial(_call, run, op), "PrivateUse1")
    for op in _WHOLE:
        aten.impl(op, functools.partial(_call, run, op), "PrivateUse1")
    for name, kernel in meta_kernels.items():
        # torch refuses, in some releases, to replace a kernel that was registered from Python
        if not torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", "Meta"):
            aten.impl(name, kernel, "Meta")
    for name in torch._C._dispatch_get_registrations_for_dispatch_key("AutocastCPU"):
        base, _, overload = name.removeprefix("aten::").partition(".")
        op = getattr(getattr(torch.ops.aten, base, None), overload or "default", None)
        if name.startswith("aten::") and op is not None:
            aten.impl(op, functools.partial(_call_as_autocast_does, op, base), "AutocastPrivateUse1")
    for op in (getattr(torch.ops.aten, name).default for name in _CASTS_WITHIN if hasattr(torch.ops.aten, name)):
        aten.impl(op, functools.partial(_call_with_autocast_within, op), "AutocastPrivateUse1")
    _kept.extend((everything, aten))


def _call(run: Run, op: Any, *args: Any, **kwargs: Any) -> Any:
    return run(op, args, kwargs)


def _call_as_autocast_does(op: Any, base: str, *args: Any, **kwargs: Any) -> Any:
    """Cast the floating-point arguments of the second device as the CPU's autocast casts the CPU's, then call."""
    lower = torch.get_autocast_dtype(NAME)

    def eligible(leaf: Any) -> bool:
        there = isinstance(leaf, torch.Tensor) and leaf.device.type == NAME
        return there and leaf.is_floating_point() and leaf.dtype != torch.float64

    given = [leaf.dtype for leaf in pytree.arg_tree_leaves(*args, **kwargs) if eligible(leaf)]
    narrow = base in _LOWER_PRECISION or (base in _WIDEST and all(dtype == lower for dtype in given))
    dtype = lower if narrow else torch.float32
    args, kwargs = pytree.tree_map(lambda leaf: leaf.to(dtype) if eligible(leaf) else leaf, (args, kwargs))
    with torch.autocast(NAME, enabled=False):
        return op(*args, **kwargs)


def _call_with_autocast_within(op: Any, *args: Any, **kwargs: Any) -> Any:
    """Below this key torch switches autocast off, so it is noted for the kernel (`autocast_below`)."""
    _within.append(torch.get_autocast_dtype(NAME))
    try:
        with torch.autocast(NAME, enabled=False):
            return op(*args, **kwargs)
    finally:
        _within.pop()


@functools.cache
def factories() -> tuple[Any, ...]:
    """Operators of torch's that need a kernel of their own. To find them takes most of the time of `register`."""
    return tuple(op for schema in torch._C._jit_get_all_schemas() if (op := _own_kernel(schema)) is not None)


def _own_kernel(schema: Any) -> Any:
    """The operator of this schema when it needs a kernel of its own: the factories, which have no tensor to follow."""
    namespace, _, name = schema.name.partition("::")
    if namespace != "aten" or "names" in schema.overload_name or schema.overload_name == "out":
        return None
    takes_tensor = any("Tensor" in str(argument.type) for argument in schema.arguments)
    factory = not takes_tensor and any(argument.name == "device" for argument in schema.arguments)
    if not (factory or name in _NEVER_FALL_BACK):
        return None
    return getattr(getattr(torch.ops.aten, name, None), schema.overload_name or "default", None)


def _admit_to_tracing(wrapper: type[torch.Tensor]) -> None:
    """Tracing rejects tensor subclasses it does not know; a wrapper met there is an ordinary real tensor."""
    from torch._subclasses import fake_tensor
    from torch.fx.experimental import proxy_tensor

    rejects = fake_tensor._check_for_subclass_arg
    fake_tensor._check_for_subclass_arg = lambda x: not isinstance(x, wrapper) and rejects(x)
    proxy_tensor.HANDLED_TYPES = (*proxy_tensor.HANDLED_TYPES, wrapper)  # type: ignore[assignment]


class _Storage(torch.UntypedStorage):
    """Memory of the CPU in which `torch.load` finds the numbers of tensors that it makes on the second device."""

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return torch.device(NAME, 0)


def _load_checkpoints() -> None:
    """Let ``torch.load(map_location=...)`` place tensors on the second device."""

    def place(storage: Any, location: str) -> Any:
        if location.partition(":")[0] != NAME:
            return None
        storage.__class__ = _Storage
        return storage

    torch.serialization.register_package(0, lambda _: None, place)  # before torch's own for PrivateUse1


def _keep_ties() -> None:
    """Let ``module.to(device)`` keep parameters tied, as it does between devices that share a kind of tensor."""
    apply: Callable[..., Any] = torch.nn.Module._apply
    depth = 0

    @functools.wraps(apply)
    def keep_ties(self: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal depth
        before = {} if depth else {slot: id(parameter) for slot, parameter in _slots(self)}
        held = [] if depth else list(self.parameters())  # so that no identity is used twice
        depth += 1
        try:
            result = apply(self, *args, **kwargs)
        finally:
            depth -= 1
        first: dict[int, Any] = {}
        for (module, name), parameter in _slots(self) if held else ():
            module._parameters[name] = first.setdefault(before[module, name], parameter)
        return result

    module_class: Any = torch.nn.Module
    module_class._apply = keep_ties


def _slots(module: torch.nn.Module) -> list[tuple[tuple[torch.nn.Module, str], torch.nn.Parameter]]:
    """Where each parameter is kept: its module and its name there."""
    return [
        ((part, name), parameter)
        for part in module.modules()
        for name, parameter in part._parameters.items()
        if parameter is not None
    ]


class BackwardError(NotImplementedError):
    """A backward pass was asked for on the second device, which has none."""


def _refuse_backward() -> None:
    """Refuse a backward pass that reaches the second device before torch's engine begins it.

    The engine has no thread for a device that Python registers: it raises, and beside another accelerator it aborts.
    """
    run = torch.autograd.graph._engine_run_backward

    @functools.wraps(run)
    def run_backward(outputs: Any, *args: Any, **kwargs: Any) -> Any:
        if any(map(_reaches_second, outputs)):
            raise BackwardError("the second device has no backward pass")
        return run(outputs, *args, **kwargs)

    for module in (torch.autograd.graph, torch.autograd):
        vars(module)[run.__name__] = run_backward


def _reaches_second(output: Any) -> bool:
    """Whether a tensor, or an edge of the graph, has a node on the second device behind it."""
    if isinstance(output, torch.Tensor) and output.device.type == NAME:
        return True
    todo, seen = [output.grad_fn if isinstance(output, torch.Tensor) else output.node], set()
    while todo:
        node = todo.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if any(metadata.device.type == NAME for metadata in node._input_metadata):
            return True
        todo += [following for following, _ in node.next_functions]
    return False


def run_control_flow(kind: type[torch.Tensor]) -> None:
    """Run `torch.cond` and ``while_loop`` as Python would, for arguments of this tensor subclass."""
    from torch._higher_order_ops.cond import cond_op
    from torch._higher_order_ops.while_loop import while_loop_op

    for op, function in ((cond_op, _cond), (while_loop_op, _while_loop)):
        if kind not in op.python_key_table:
            op.py_impl(kind)(function)


def control_flow(
    func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], aside: Callable[[Callable[[], Any]], object]
) -> Callable[[], Any] | None:
    """What a call of ``cond`` or ``while_loop`` does, as Python would do it; `None` for other functions.

    torch calls no mode for what happens inside, so a mode that wants to see it runs this instead. A program holds the
    other branch too, and a body that never runs here: `aside` is given what calls them; what they draw of random
    numbers is not missed afterwards.
    """
    from torch._higher_order_ops.cond import cond_op
    from torch._higher_order_ops.while_loop import while_loop_op

    function = _cond if func is cond_op else _while_loop if func is while_loop_op else None
    if function is None:
        return None

    def restoring(branch: Callable[[], Any]) -> None:
        state = torch.default_generator.get_state()
        try:
            aside(branch)
        finally:
            torch.default_generator.set_state(state)

    return functools.partial(function, *args, aside=restoring, **kwargs)


def _ignore(_: Callable[[], Any]) -> None:
    """Do not run it."""


def _cond(
    predicate: Any, if_true: Any, if_false: Any, operands: Any = (), *, aside: Callable[..., object] = _ignore
) -> Any:
    taken, other = (if_true, if_false) if predicate else (if_false, if_true)
    result = taken(*operands)
    aside(lambda: other(*operands))
    return result


def _while_loop(
    condition: Any, body: Any, carried: Any, additional: Any, *, aside: Callable[..., object] = _ignore
) -> Any:
    first = carried
    while condition(*carried, *additional):
        carried = body(*carried, *additional)
    if carried is first:
        aside(lambda: body(*carried, *additional))
    return carried


@contextlib.contextmanager
def exporting() -> Iterator[None]:
    """Within it, the model is told that it is exported, and runs in eager."""
    flags = ("_is_compiling_flag", "_is_exporting_flag")
    before = {flag: getattr(torch.compiler, flag) for flag in flags}
    try:
        for flag in flags:
            setattr(torch.compiler, flag, True)
        yield
    finally:
        for flag, value in before.items():
            setattr(torch.compiler, flag, value)


def uncompiled() -> Any:
    """A context in which ``cond`` and ``while_loop`` are run without compiling them."""
    return torch.compiler.set_stance("force_eager")


def make_wrapper(cls: type[torch.Tensor], raw: torch.Tensor, device: torch.device) -> Any:
    """A tensor of this subclass with the sizes, strides and dtype of `raw`, without storage, on `device`."""
    return torch.Tensor._make_wrapper_subclass(
        cls,
        raw.size(),
        strides=raw.stride(),
        storage_offset=raw.storage_offset(),
        dtype=raw.dtype,
        layout=raw.layout,
        device=device,
        requires_grad=False,
    )


def take_over(wrapper: torch.Tensor, other: torch.Tensor) -> None:
    """Give a wrapper the sizes, strides and offset of another."""
    torch.Tensor.data.__set__(wrapper, other)  # type: ignore[attr-defined]


def autocast_below() -> contextlib.AbstractContextManager[Any]:
    """A context in which a kernel of the CPU casts what it calls within, where autocast asked for that on the way."""
    return torch.autocast("cpu", dtype=_within[-1]) if _within else contextlib.nullcontext()


@contextlib.contextmanager
def plain_tensors() -> Iterator[None]:
    """Within it, subclasses are not asked to handle torch's functions."""
    with torch._C.DisableTorchFunctionSubclass():
        yield


def fake_copies(tensors: dict[int, torch.Tensor], device: torch.device) -> tuple[dict[int, torch.Tensor], Any]:
    """Fake tensors on `device` in place of these, by the same keys, for `torch.export`; and their fake mode.

    Raises:
        RuntimeError: When fake tensors of this torch refuse the device.
    """
    from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    mode = FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True)
    with torch.no_grad():
        metas = {
            key: torch.empty_strided(t.size(), t.stride(), dtype=t.dtype, device="meta") for key, t in tensors.items()
        }
    return {key: FakeTensor(mode, meta, device) for key, meta in metas.items()}, mode


def fake_on(device: torch.device, mode: Any) -> torch.Tensor:
    """A fake tensor of one number on a device, which this build of torch may lack."""
    from torch._subclasses.fake_tensor import FakeTensor

    return FakeTensor(mode, torch.empty(1, device="meta"), device)


def is_fake(tensor: object) -> bool:
    """Whether it is a fake tensor."""
    from torch._subclasses.fake_tensor import FakeTensor

    return isinstance(tensor, FakeTensor)
