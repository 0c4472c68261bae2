"""What a process keeps to use again, bounded by its size."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock, local
from typing import Any

import numpy as np


class Kept(OrderedDict[Hashable, Any]):
    """What was made last, each with its `nbytes`: up to so many in all, and the last one however large it is."""

    def __init__(self, most_bytes: int) -> None:
        super().__init__()
        self.most_bytes, self._lock = most_bytes, Lock()

    def made(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """What is kept under a key, else what `make` makes."""
        with self._lock:
            if key in self:
                self.move_to_end(key)
                return self[key]
        new = make()
        with self._lock:
            self[key] = new
            held = sum(each.nbytes for each in self.values())
            while held > self.most_bytes and len(self) > 1:
                held -= self.popitem(last=False)[1].nbytes
        return new


class Recent(local):
    """What each thread computed last, by key: arrays and numbers of so many elements at most."""

    def __init__(self, most_elements: int) -> None:
        self.most_elements = most_elements
        self.clear()

    def clear(self) -> None:
        self.held, self.size = OrderedDict[Hashable, Any](), 0

    def hold(self, key: Hashable, value: Any) -> None:
        self.held[key] = value
        self.size += np.size(value)
        while self.size > self.most_elements:
            self.size -= np.size(self.held.popitem(last=False)[1])
