"""What is kept to be used again: of which thread, and how much of it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from carver.base.kept import Recent


def test_a_thread_that_clears_leaves_what_others_have() -> None:
    recent = Recent(100)
    recent.hold("here", np.zeros(10))
    with ThreadPoolExecutor(1) as other:
        assert other.submit(lambda: (len(recent.held), recent.hold("there", 1), recent.clear())).result()[0] == 0
    assert [*recent.held] == ["here"] and recent.size == 10


def test_the_first_go_where_there_are_too_many_elements() -> None:
    recent = Recent(25)
    for name in "abc":
        recent.hold(name, np.zeros(10))
    assert [*recent.held] == ["b", "c"] and recent.size == 20
    recent.hold("d", np.zeros(30))
    assert not recent.held and not recent.size
