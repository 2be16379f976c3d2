"""The memory of tensors of the second device, as ``x.untyped_storage()`` shows it."""

from __future__ import annotations

from typing import Any, cast
from weakref import WeakValueDictionary

import torch

from exportlint.devices.hooks import NAME


class Memory(torch.UntypedStorage):
    """Memory of the CPU that holds the numbers of tensors of the second device; it says that it is there.

    It is another object than the CPU's own storage, which tensors of the CPU may use as well, and one for all tensors
    that share it, as long as one of them keeps it.
    """

    raw: torch.UntypedStorage

    @classmethod
    def of(cls, raw: torch.UntypedStorage, empty: torch.UntypedStorage) -> Memory:
        """The memory around this storage of the CPU.

        Args:
            raw: The storage that holds the numbers.
            empty: A storage of the second device that holds nothing, as a wrapper has, to be made into the memory
                where there is none yet: C++ tells it from the CPU's.
        """
        known = _memories.get(raw._cdata)
        if known is None:
            empty.__class__ = cls
            known = _memories[raw._cdata] = cast("Memory", empty)
            known.raw = raw  # and keeps it, so that no address is used twice
        return known

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        """The second device."""
        return torch.device(NAME, 0)

    @property
    def _cdata(self) -> int:
        address: int = self.raw._cdata
        return address

    def data_ptr(self) -> int:
        """The address of the first byte."""
        return self.raw.data_ptr()

    def nbytes(self) -> int:
        """The number of bytes."""
        return self.raw.nbytes()

    size = __len__ = nbytes

    def resize_(self, size: int) -> Any:
        """Give it another number of bytes, for all tensors that share it."""
        self.raw.resize_(size)
        return self

    def is_shared(self) -> bool:
        """Whether other processes see it."""
        return self.raw.is_shared()

    def cpu(self) -> torch.UntypedStorage:
        """A copy on the CPU."""
        copied: torch.UntypedStorage = self.raw.clone()  # type: ignore[no-untyped-call]
        return copied

    def __getitem__(self, *_: object) -> Any:
        raise NotImplementedError(f"Not available for '{NAME}' storage")  # as torch says it of cuda's

    __setitem__ = __getitem__

    def __repr__(self) -> str:
        return f"[{self.nbytes()} bytes on {self.device}]"

    __str__ = __repr__


_memories: WeakValueDictionary[int, Memory] = WeakValueDictionary()
