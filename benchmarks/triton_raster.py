"""Measure in which order a Triton matmul's tiles are best handed out: GROUP_M rows of them together, 1 to 16.

    python benchmarks/triton_raster.py --out triton_raster.csv [--budget 12] [--device h200]

The first six tiles of carver's ranking for each of ten large problems, each with every GROUP_M, checked against
PyTorch. Writes a table that `carver evaluate FILE` reads. Needs PyTorch and Triton.
"""

from __future__ import annotations

from types import MappingProxyType

from triton_matmul import Matmul, problem
from triton_table import Config, Row, main

import carver

SIZES = (
    (4096, 4096, 4096), (8192, 8192, 8192), (2048, 8192, 4096), (1536, 1536, 1536), (2048, 2048, 2048),
    (512, 50304, 768), (16384, 1024, 4096), (4096, 4096, 512), (1024, 16384, 4096), (3072, 6144, 2048),
)  # fmt: skip
GROUPS = (1, 2, 4, 8, 16)
TILES = 6


class Raster(Matmul):
    problems = MappingProxyType({"all": [problem(*sizes, "bfloat16") for sizes in SIZES]})

    def configs(self, p: Row, arch: carver.Arch) -> list[Config]:
        tiles: dict[tuple[tuple[str, int], ...], Config] = {}
        for hint in carver.MatmulTemplate(**p).with_arch(arch).recommend_hints(1000, "triton"):
            tile = {name: value for name, value in hint.config.items() if name != "GROUP_M"}
            if tile["SPLIT_K"] == 1:
                tiles.setdefault(tuple(tile.items()), tile)
        return [{**tile, "GROUP_M": group} for tile in list(tiles.values())[:TILES] for group in GROUPS]


if __name__ == "__main__":
    main(Raster(), __doc__)
