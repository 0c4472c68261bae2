"""The first ten of each operator on a few devices, as they were when somebody last looked at them.

A change of the model changes these files: run `pytest --golden`, and read the difference before it is committed.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from cases import BACKENDS, offered

import carver
from carver.ops.conv import Conv2DTemplate, DedispersionTemplate
from carver.ops.transpose import TransposeTemplate

GOLDEN = Path(__file__).parent / "golden"
OPERATORS = {
    "matmul-4096": carver.MatmulTemplate(4096, 4096, 4096),
    "matmul-decode": carver.MatmulTemplate(16, 4096, 14336, in_dtype="bfloat16", trans_B=True),
    "matmul-ragged": carver.MatmulTemplate(1000, 1001, 999, in_dtype="float32"),
    "gemv": carver.GEMVTemplate(8192, 8192),
    "elementwise": carver.ElementwiseTemplate((8192, 4096), inputs=2),
    "reduction-rows": carver.ReductionTemplate("sum", (4096, 4096)),
    "softmax": carver.ReductionTemplate("softmax", (4096, 4096)),
    "attention-causal": carver.FlashAttentionTemplate(2, 32, 8, seq=8192, head_dim=128, causal=True),
    "attention-decode": carver.FlashAttentionTemplate(8, 32, 8, seq=1, seq_kv=8192, head_dim=128),
    "gated-mlp": carver.GatedMLPTemplate(512, 14336, 4096, in_dtype="bfloat16"),
    "matmul-softmax": carver.MatmulSoftmaxTemplate(4096, 2048, 512),
    "grouped-matmul": carver.GroupedMatmulTemplate(carver.Routing(1024, 64, 8), 2560, 3584),
    "grouped-weights": carver.GroupedMatmulTemplate(
        carver.Routing(512, 128, 8), 1536, 2048, b_dtype="int4", scale_block=(1, 128)
    ),
    "scaled-matmul": carver.MatmulTemplate(
        1024, 4096, 7168, trans_B=True, in_dtype="float8_e4m3", out_dtype="bfloat16", scale_block=(128, 128)
    ),
    "transpose": TransposeTemplate(4096, 6144),
    "depthwise": carver.OpTemplate(
        "O[n,y,x,c] += I[n,y+r,x+s,c] * W[r,s,c]", n=32, y=56, x=56, c=128, r=3, s=3, in_dtype="bfloat16"
    ),
    "convolution": Conv2DTemplate(4096, 4096, 15, 15),
    "dedispersion": DedispersionTemplate(2048, 25000, 1536, 650),
}
OWN = {("scaled-matmul", "mi300x"): carver.MatmulTemplate(
    1024, 4096, 7168, trans_B=True, in_dtype="float8_e4m3fnuz", out_dtype="bfloat16", scale_block=(128, 128)
)}  # fmt: skip
"""Of devices that multiply 8-bit floats of their own."""
DEVICES = {
    "cuda": ("h200_sxm", "rtx_3090"), "triton": ("h200_sxm", "a100_sxm_80", "mi300x"), "cpu": ("cpu_avx2",),
    "tilelang": ("h200_sxm",), "clblast": ("rtx_3090", "rx_7900_xtx"), "tensile": ("mi100", "radeon_vii"),
    "kernel_tuner": ("rtx_a4000",), "kernel_tuner_hip": ("pro_w6600",),
}  # fmt: skip


def cases() -> Iterator[tuple[str, str, str]]:
    for name, op in OPERATORS.items():
        for backend in BACKENDS[op.problem.operator]:
            for device in DEVICES.get(backend, ()):
                if offered(op.problem, carver.load_arch(device), backend):
                    yield name, backend, device


def listing(name: str, backend: str, device: str) -> str:
    """What is compared: predicted times to four digits, so that another CPU's last bit makes no difference."""
    ranking = OWN.get((name, device), OPERATORS[name]).with_arch(device).recommend_hints(10, backend)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["kernel", "config", "predicted_us", "bound"])
    for h in ranking:
        config = " ".join(f"{tunable}={value}" for tunable, value in h.config.items())
        writer.writerow([h.kernel, config, f"{h.predicted_ms * 1e3:.4g}", h.bound])
    return out.getvalue()


@pytest.mark.parametrize(("name", "backend", "device"), list(cases()))
def test_first_ten(name: str, backend: str, device: str, request: pytest.FixtureRequest) -> None:
    path = GOLDEN / f"{name}-{backend}-{device}.csv"
    now = listing(name, backend, device)
    if request.config.getoption("--golden"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(now)
        return
    assert path.is_file(), f"{path.name} is not there; write it with pytest --golden"
    assert now == path.read_text(), f"{path.name} changed; if it should, rewrite it with pytest --golden"


def test_no_golden_file_is_left_behind() -> None:
    expected = {f"{name}-{backend}-{device}.csv" for name, backend, device in cases()}
    assert {path.name for path in GOLDEN.glob("*.csv")} <= expected
