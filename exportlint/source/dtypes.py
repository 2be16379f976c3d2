"""The dtypes that casts and names mean."""

from __future__ import annotations

CASTS = {
    "double": "torch.float64",
    "cdouble": "torch.complex128",
    "float": "torch.float32",
    "cfloat": "torch.complex64",
    "half": "torch.float16",
    "bfloat16": "torch.bfloat16",
}
"""What methods of tensors cast to, by their name; of modules, those to real numbers."""
DTYPES = {**{f"torch.{name}": dtype for name, dtype in CASTS.items()}, **{name: name for name in CASTS.values()}}
"""The dtypes by their dotted names, of which some have two."""
