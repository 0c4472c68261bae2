"""What the alignment of rows costs: the same tiles on products of 3000 x 3000 whose rows have 6000 to 6144 bytes.

    python benchmarks/rows.py --out rows.json [--device cuda]

The eight fastest tiles of `tests/data/h200/more.json.gz` at 3000^3 and six of the kernel with mma.sync, at K = 3000 and
3016 (rows on multiples of 16 bytes), 3024 (32), 3040 (64), 3008 and 3072 (128). Writes every time, and prints each
tile's at each K over its mean at rows on multiples of 128 bytes, in time a step.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from carver import MatmulTemplate
from carver.ranking.recommend import recommend
from carver.run.bench import Bench, candidates, measure
from carver.run.records import Records
from carver.run.session import Settings

DEPTHS = (3000, 3008, 3016, 3024, 3040, 3072)
TABLE = Path(__file__).resolve().parent.parent / "tests" / "data" / "h200" / "more.json.gz"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="auto")
    args = parser.parse_args()
    cases = json.loads(gzip.decompress(TABLE.read_bytes()))["cases"]
    (case,) = (c for c in cases if c["problem"]["sizes"]["m"] == 3000)
    timed = sorted((row for row in case["rows"] + case["avoided"] if row[3]), key=lambda row: row[3])
    tiles = [(row[0], row[1]) for row in timed[:8]]
    found: list[dict[str, object]] = []
    step_ms: dict[str, dict[int, float]] = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        Records(Path(folder) / "records.sqlite") as store,
        Bench(args.device, store, Settings(budget_s=6.0)) as bench,
    ):
        for k in DEPTHS:
            problem = MatmulTemplate(3000, 3000, k, trans_B=True, in_dtype="bfloat16").problem
            runnable = recommend(problem, bench.machine.arch, 10**6, "cuda", advised=False)
            if k == DEPTHS[0]:
                tiles += [(h.kernel, dict(h.config)) for h in runnable if h.kernel == "mma"][:6]
            hints = [h for h in runnable if (h.kernel, dict(h.config)) in tiles]
            for m in measure(bench, candidates(hints, bench.machine.arch)):
                found.append({"k": k, "kernel": m.kernel, "config": dict(m.config), "median_ms": m.median_ms,
                              "predicted_ms": m.predicted_ms, "outcome": m.outcome})  # fmt: skip
                if m.ok and m.median_ms:
                    step_ms.setdefault(f"{m.kernel} {list(m.config.values())}", {})[k] = m.median_ms / k
    args.out.write_text(json.dumps({"command": f"python {' '.join(sys.argv)}", "rows": found}, indent=0) + "\n")
    for tile, times in step_ms.items():
        aligned = (times[3008] + times[3072]) / 2
        print(f"{tile:48}", *(f"K={k} {times[k] / aligned:.2f}" for k in (3000, 3016, 3024, 3040)))


if __name__ == "__main__":
    main()
