"""What the site has besides the pages of docs/: hooks of mkdocs.

The landing page gets the page that `--html` writes, made beforehand for some operators, devices and sizes; that of
published rates its table, from tests/data/published_rates.csv; that of accuracy all rows of its CSV.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

import carver
from carver.base.errors import NoCandidates
from carver.ops.operator import Template
from carver.ranking.plots import document, page

HERE = Path(__file__).resolve().parent
RATES = HERE / "data" / "published_rates.csv"
ACCURACY = HERE.parent / "docs" / "evidence" / "accuracy.csv"
DEVICES = (
    "h100", "h200", "b200", "a100", "l40s", "rtx_4090", "rtx_5090", "t4", "mi300x", "mi355x", "rx_7900_xtx",
    "rx_9070_xt",
)  # fmt: skip
ROUTING = carver.Routing(1024, experts=64, topk=8)
OPERATORS: dict[str, dict[str, Callable[[], Template]]] = {
    "matmul, float16": {
        "4096 x 4096 x 4096": lambda: carver.MatmulTemplate(4096, 4096, 4096),
        "16 x 8192 x 8192": lambda: carver.MatmulTemplate(16, 8192, 8192),
    },
    "flash attention, causal": {
        "4 x 32 heads x 4096 x 128": lambda: carver.FlashAttentionTemplate(4, 32, seq=4096, head_dim=128, causal=True),
        "64 x 32 heads x 512 x 64": lambda: carver.FlashAttentionTemplate(64, 32, seq=512, head_dim=64, causal=True),
    },
    "softmax": {"16384 rows of 4096": lambda: carver.ReductionTemplate("softmax", (16384, 4096))},
    "GEMV": {"8192 x 8192": lambda: carver.GEMVTemplate(8192, 8192)},
    "matmul of experts": {"1024 tokens, 8 of 64": lambda: carver.GroupedMatmulTemplate(ROUTING, 2560, 3584)},
    "fp8 matmul, scales per block": {
        "1024 x 4096 x 7168": lambda: carver.MatmulTemplate(
            1024, 4096, 7168, trans_B=True, in_dtype="float8_e4m3", out_dtype="bfloat16", scale_block=(128, 128)
        )
    },
}  # fmt: skip
SHOWN, EXPLAINED = 12, 3
"""Candidates of a page of the demo, and those that say what their nearest changes would do."""


@cache
def demos() -> dict[str, str]:
    """A page for each operator, size and device, by the name of its file."""
    pages = {}
    for i, sizes in enumerate(OPERATORS.values()):
        for j, make in enumerate(sizes.values()):
            for device in DEVICES:
                try:
                    found = document(make().with_arch(device).recommend_hints(SHOWN), explained=EXPLAINED)
                except NoCandidates as error:
                    found = {"title": f"none on {carver.load_arch(device).title}", "subtitle": str(error)}
                pages[f"{i}_{j}_{device}.html"] = page(found)
    return pages


def chooser() -> str:
    """The part of the landing page that shows them, where the file in docs/ has a picture."""

    def menu(name: str, options: dict[str, str]) -> str:
        told = "".join(f'<option value="{value}">{escape(text)}</option>' for value, text in options.items())
        return f'<select id="demo-{name}" aria-label="{name}">{told}</select>'

    sizes = {str(i): list(each) for i, each in enumerate(OPERATORS.values())}
    menus = " ".join([
        menu("operator", {str(i): name for i, name in enumerate(OPERATORS)}),
        menu("size", {str(j): size for j, size in enumerate(sizes["0"])}),
        menu("device", {name: carver.load_arch(name).title for name in DEVICES}),
    ])  # fmt: skip
    return f"""
What `carver recommend OPERATOR SIZES --arch NAME --html page.html` writes, made beforehand:

<div class="demo" markdown="0"><p>{menus}</p><iframe title="ranking" src="demo/0_0_h200.html"></iframe></div>
<script>
const demoSizes = {json.dumps(sizes)};
const [operator, size, device] = ["operator", "size", "device"].map((each) => document.getElementById("demo-" + each));
device.value = "h200";
function show() {{
  document.querySelector(".demo iframe").src = `demo/${{operator.value}}_${{size.value}}_${{device.value}}.html`;
}}
operator.onchange = () => {{
  size.replaceChildren(...demoSizes[operator.value].map((text, i) => new Option(text, i)));
  show();
}};
size.onchange = device.onchange = show;
</script>
"""


def published() -> list[dict[str, str]]:
    return list(csv.DictReader(line for line in RATES.open(encoding="utf-8") if line[0] != "#"))


def ratio(row: dict[str, str]) -> float:
    """Predicted rate of the first pick over the published one."""
    op = carver.MatmulTemplate(int(row["M"]), int(row["N"]), int(row["K"]), in_dtype=row["dtype"], trans_B=True)
    (hint,) = op.with_arch(row["device"]).recommend_hints(1)
    return float(hint.details["tflops"]) / float(row["tflops"])


def rates() -> str:
    heads = [
        "device", "type", "M x N x K", "published TFLOP/s", "library", "predicted / published", "source, exception",
    ]  # fmt: skip
    rows = [
        [r["device"], r["dtype"], f"{r['M']} x {r['N']} x {r['K']}", r["tflops"], r["library"], f"{ratio(r):.2f}",
         "; ".join(filter(None, (r["source"], r["exception"])))] for r in published()
    ]  # fmt: skip
    return table(heads, rows)


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (heads, ["---"] * len(heads), *rows))


def accuracy() -> str:
    heads, *rows = csv.reader(ACCURACY.open(encoding="utf-8"))
    return table(heads, rows)


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    name = page.file.src_uri
    if name == "index.md":
        before, _, after = markdown.partition("![")
        return f"{before}{chooser()}{after.partition('ranking.svg`.')[2]}"
    added = {"evidence/published_rates.md": ("All rates", rates), "evidence/accuracy.md": ("All tables", accuracy)}
    heading, make = added.get(name, ("", None))
    return markdown if make is None else f"{markdown}\n## {heading}\n\n{make()}\n"


def on_post_build(config: Any, **_: Any) -> None:
    folder = Path(config["site_dir"]) / "demo"
    folder.mkdir(exist_ok=True)
    for name, text in demos().items():
        (folder / name).write_text(text, encoding="utf-8")
