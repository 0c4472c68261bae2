"""Tables of fused attention, as PyTorch Inductor's autotuning of flex attention logs them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..attention import FlashAttentionTemplate
from .cases import Case, device, frames

VISITED = 0
"""Keys that a query walked while these tables were recorded, as inferred from the times themselves.

They grow with the bytes of Q and O, at 1.57 TB/s on an A100 for any sequence length, and not with the number of keys;
taken for full attention they would be forty times the device's peak. A count of blocks that was left at zero does
that: a comment in later versions of Inductor names this very mistake, and they time 16 blocks of keys or all.
"""


def flex_attention(folder: Path, name: str, meta: Mapping[str, Any]) -> Iterator[Case]:
    """One case a problem: Q of b x h x m x n (batch, heads, queries, head dimension), K and V with as many heads."""
    pd = frames()

    problems = pd.read_csv(folder / f"{name}_problems.csv.gz").set_index("pid")
    configs = pd.read_csv(folder / f"{name}_configs.csv.gz").set_index("cid")
    measured = pd.read_csv(folder / f"{name}_meas.csv.gz")
    arch = device(meta)
    keys = {"block_m": "BLOCK_M", "block_n": "BLOCK_N", "num_warps": "num_warps", "num_stages": "num_stages"}
    rows = {cid: {name: int(row[key]) for key, name in keys.items()} for cid, row in configs.to_dict("index").items()}
    for pid, group in measured.groupby("pid"):
        p = problems.loc[pid]
        template = FlashAttentionTemplate(
            int(p.b), int(p.h), seq=int(p.m), seq_kv=int(p.kv_seq_length), head_dim=int(p.n),
            in_dtype={"float32": "tf32"}.get(p["dtype"], p["dtype"]), visited=VISITED,
        )  # fmt: skip
        seconds = np.where(group.valid == 1, group.time_ms * 1e-3, np.nan)
        yield Case(name, template.problem, arch, "triton", [rows[c] for c in group.cid], seconds)
