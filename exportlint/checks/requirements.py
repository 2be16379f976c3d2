"""What the checks need, looked for when the first model is checked and not before."""

from __future__ import annotations

import importlib
import re

OLDEST_TORCH = (2, 10)
INSTALL = "pip install 'exportlint[pytest]'"
# torch.export pulls these in when it is first used, which costs two seconds: once here, else in each child.
TORCH = ("torch", "torch._dynamo", "torch.export", "torch.export.passes", "torch.export._draft_export")


class MissingRequirementError(Exception):
    """Something that the checks need is not there; the message is one line that says what to do."""


def require() -> None:
    """Import what the checks need.

    Raises:
        MissingRequirementError: When torch or hypothesis is missing, broken or too old.
    """
    _import("hypothesis")
    require_torch()


def require_torch() -> None:
    """Import torch and what an export needs of it; no operator is run.

    Raises:
        MissingRequirementError: When torch is missing, broken, or older than `OLDEST_TORCH`.
    """
    _import("torch")
    require_torch_version()
    for name in TORCH:
        _import(name)


def require_torch_version() -> None:
    """Look whether the torch that is imported is new enough.

    Raises:
        MissingRequirementError: When it is older than `OLDEST_TORCH`.
    """
    import torch

    version = str(torch.__version__)
    release = re.match(r"(\d+)\.(\d+)", version)
    if release is not None and (int(release[1]), int(release[2])) < OLDEST_TORCH:
        oldest = ".".join(map(str, OLDEST_TORCH))
        raise MissingRequirementError(f"exportlint needs torch {oldest} or newer, this is torch {version}")


def _import(name: str) -> None:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name == name:
            raise MissingRequirementError(f"the checks need {name}: {INSTALL}") from None
        raise _broken(name, error) from error
    except (Exception, SystemExit) as error:  # a shared library that is missing is an OSError or a plain ImportError
        raise _broken(name, error) from error


def _broken(name: str, error: BaseException) -> MissingRequirementError:
    words = f"{type(error).__name__}: {error}".splitlines()[0]
    return MissingRequirementError(f"the checks need {name}, which cannot be imported: {words}")
