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
    "_C._jit_get_all_schemas",
    "_C._dispatch_has_kernel_for_dispatch_key",
    "_C._ExcludeDispatchKeyGuard",
    "_C.DisableTorchFunctionSubclass",
    "_C._disabled_torch_function_impl",
    "Tensor._make_wrapper_subclass",
    "_subclasses.fake_tensor.FakeTensor",
    "_subclasses.fake_tensor._check_for_subclass_arg",
    "fx.experimental.proxy_tensor.HANDLED_TYPES",
)
# Kernels that dispatch on PrivateUse1 while the Python key is excluded, where a fallback is not reached.
_NEVER_FALL_BACK = frozenset({"copy_", "_local_scalar_dense"})
# What the CPU's autocast computes in lower precision; the other operators take what they get.
_LOWER_PRECISION = (
    *("mm", "bmm", "addmm", "baddbmm", "addbmm", "matmul", "linear", "scaled_dot_product_attention"),
    *("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d.input", "conv_transpose3d.input"),
)
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
    run: Run, wrapper: type[torch.Tensor], meta_kernels: Mapping[str, Callable[..., Any]] = MappingProxyType({})
) -> torch.device:
    """Register the second device in this process, once.

    Args:
        run: Computes an operator, called as ``run(operator, args, kwargs)`` when a tensor or device of the second
            device takes part.
        wrapper: The tensor subclass whose instances live on the second device.
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
        _register_operators(run, meta_kernels)
        run_control_flow(wrapper)
        _admit_to_tracing(wrapper)
    return torch.device(NAME, 0)


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

    backend_registration.rename_privateuse1_backend(NAME)
    backend_registration.generate_methods_for_privateuse1_backend()
    torch._register_device_module(NAME, Backend())  # type: ignore[no-untyped-call]
    hook, guard = backend_registration._DummyPrivateUse1Hook(), backend_registration._DummyDeviceGuard()
    torch._C._acc.register_python_privateuseone_hook(hook)
    torch._C._acc.register_python_privateuseone_device_guard(guard)
    torch.set_autocast_dtype(NAME, torch.get_autocast_dtype("cpu"))
    _kept.extend((hook, guard))


def _register_operators(run: Run, meta_kernels: Mapping[str, Callable[..., Any]]) -> None:
    """A fallback for all operators, and a kernel of its own for those that cannot reach the fallback."""
    library: Any = torch.library.Library
    everything = library("_", "IMPL")
    everything.fallback(lambda op, *args, **kwargs: run(op, args, kwargs), "PrivateUse1")
    everything.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
    aten = library("aten", "IMPL")
    for schema in torch._C._jit_get_all_schemas():
        op = _own_kernel(schema)
        if op is not None:
            # An operator without a kernel slot for the key (composite on purpose) refuses; the fallback serves it.
            with contextlib.suppress(RuntimeError):
                aten.impl(op, functools.partial(_call, run, op), "PrivateUse1")
    for name, kernel in meta_kernels.items():
        # torch refuses, in some releases, to replace a kernel that was registered from Python
        if not torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", "Meta"):
            aten.impl(name, kernel, "Meta")
    for name in _LOWER_PRECISION:
        op = operator.attrgetter(name if "." in name else f"{name}.default")(torch.ops.aten)
        aten.impl(op, functools.partial(_call_in_lower_precision, op), "AutocastPrivateUse1")
    _kept.extend((everything, aten))


def _call(run: Run, op: Any, *args: Any, **kwargs: Any) -> Any:
    return run(op, args, kwargs)


def _call_in_lower_precision(op: Any, *args: Any, **kwargs: Any) -> Any:
    """What the CPU's autocast does to an operator of its list: cast the floating-point arguments, then call it."""
    dtype = torch.get_autocast_dtype(NAME)

    def cast(value: Any) -> Any:
        return value.to(dtype) if isinstance(value, torch.Tensor) and value.dtype == torch.float32 else value

    with torch.autocast(NAME, enabled=False):
        return op(*map(cast, args), **{name: cast(value) for name, value in kwargs.items()})


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


def run_control_flow(kind: type[torch.Tensor]) -> None:
    """Run `torch.cond` and ``while_loop`` as Python would, for arguments of this tensor subclass."""
    from torch._higher_order_ops.cond import cond_op
    from torch._higher_order_ops.while_loop import while_loop_op

    for op, function in ((cond_op, _cond), (while_loop_op, _while_loop)):
        if kind not in op.python_key_table:
            op.py_impl(kind)(function)


def control_flow(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[[], Any] | None:
    """What a call of ``cond`` or ``while_loop`` does, as Python would do it; `None` for other functions.

    torch calls no mode for what happens inside, so a mode that wants to see it runs this instead.
    """
    from torch._higher_order_ops.cond import cond_op
    from torch._higher_order_ops.while_loop import while_loop_op

    if func is cond_op:
        return functools.partial(_cond, *args, **kwargs)
    return functools.partial(_while_loop, *args, **kwargs) if func is while_loop_op else None


def _cond(predicate: Any, if_true: Any, if_false: Any, operands: Any = ()) -> Any:
    return (if_true if predicate else if_false)(*operands)


def _while_loop(condition: Any, body: Any, carried: Any, additional: Any) -> Any:
    while condition(*carried, *additional):
        carried = body(*carried, *additional)
    return carried


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


def restride(wrapper: torch.Tensor, raw: torch.Tensor) -> bool:
    """Give a wrapper the sizes that an in-place operator gave `raw`; whether that worked."""
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.Python)
    keys = keys | torch._C.DispatchKeySet(torch._C.DispatchKey.PythonTLSSnapshot)
    with contextlib.suppress(RuntimeError), torch._C._ExcludeDispatchKeyGuard(keys):
        torch.ops.aten.as_strided_.default(wrapper, raw.size(), raw.stride(), raw.storage_offset())
    return wrapper.shape == raw.shape


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
