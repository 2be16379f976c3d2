"""Whether torch does more than compute: modes that see each operator, and transforms that replace tensors."""

from __future__ import annotations


def why_not() -> str | None:
    """Why the modes cannot be asked for, or ``None``: a mode that is entered must be seen, and no longer once left."""
    from torch.utils._python_dispatch import TorchDispatchMode

    try:
        if active():
            return None  # somebody entered one; so it is seen
        with TorchDispatchMode():  # type: ignore[no-untyped-call]
            seen = active()
        return None if seen and not active() else "this torch does not tell which modes are active"
    except Exception as error:
        return f"this torch does not tell which modes are active: {type(error).__name__}"


def active() -> bool:
    """Whether a mode or a transform such as ``vmap`` would see what is computed now."""
    import torch

    return bool(
        torch._C._len_torch_function_stack()
        or torch._C._len_torch_dispatch_stack()
        or torch._C._functorch.maybe_current_level() is not None
    )
