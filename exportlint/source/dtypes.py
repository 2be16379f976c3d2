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
WHOLE = {
    **dict.fromkeys(("long", "int64", "argmax", "argmin", "argsort", "nonzero", "count_nonzero"), "torch.int64"),
    **dict.fromkeys(("int", "int32"), "torch.int32"),
    **dict.fromkeys(("short", "int16"), "torch.int16"),
    **dict.fromkeys(("byte", "uint8"), "torch.uint8"),
    **dict.fromkeys(("char", "int8"), "torch.int8"),
}
"""The dtypes of whole numbers, by their names and by the methods that return them."""
DTYPES = {**{f"torch.{name}": dtype for name, dtype in CASTS.items()}, **{name: name for name in CASTS.values()}}
"""The dtypes by their dotted names, of which some have two."""
