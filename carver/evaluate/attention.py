"""Tables of fused attention, as PyTorch Inductor's autotuning of flex attention logs them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..arch.descriptor import Arch
from ..ops.attention import FlashAttentionTemplate
from .cases import Case, dtype, each
from .triton import logged

VISITED = 0
"""Keys that a query walked while these tables were recorded, as inferred from the times themselves.

They grow with the bytes of Q and O, at 1.57 TB/s on an A100 for any sequence length, and not with the number of keys;
taken for full attention they would be forty times the device's peak. A count of blocks that was left at zero does
that: a comment in later versions of Inductor names this very mistake, and they time 16 blocks of keys or all.
"""


def flex_attention(folder: Path, name: str, facts: Mapping[str, Any], arch: Arch) -> Iterator[Case | str]:
    """One case a problem: Q of b x h x m x n (batch, heads, queries, head dimension), K and V with as many heads."""
    configs, remark, problems = logged(folder, name, "attention")
    yield remark

    def case(row: Any) -> Case:
        p, cids, times = row
        kind = dtype(p["dtype"])
        template = FlashAttentionTemplate(
            int(p["b"]), int(p["h"]), seq=int(p["m"]), seq_kv=int(p["kv_seq_length"]), head_dim=int(p["n"]),
            in_dtype="tf32" if kind == "float32" else kind, visited=VISITED,
        )  # fmt: skip
        return Case(name, template.problem, arch, "triton", [configs[c] for c in cids], times)

    yield from each(problems, case)
