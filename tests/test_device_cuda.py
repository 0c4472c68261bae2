"""The CUDA device: the order of driver calls against a driver that only records them, and the real one where it is."""

from __future__ import annotations

import ctypes
import hashlib
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from kernels import upload

from carver.arch import detect
from carver.arch import devices as arch
from carver.base import dtypes
from carver.base.errors import ConfigError, DeviceError, RunError
from carver.calibrate.micro import Gpu
from carver.kernels.declaration import kernel_named
from carver.kernels.space import given_space
from carver.ops.elementwise import ElementwiseTemplate
from carver.ops.matmul import GEMVTemplate, MatmulTemplate
from carver.ops.operator import Template
from carver.ops.reduction import NORMALISATIONS, REDUCTIONS, GeneralReductionTemplate, ReductionTemplate
from carver.problem.problem import Problem
from carver.run import check as reference
from carver.run import cuda
from carver.run.bench import benchmark
from carver.run.buffers import OutOfMemory, address, decode, encode
from carver.run.built import compile_hint, jit
from carver.run.check import Differences
from carver.run.compile import Binary, compile_source, cuda_compiler
from carver.run.cuda import check_timer
from carver.run.device import lease_name, open_device
from carver.run.render import Call, Program, Scalar, Source, TensorMap, TensorSpec, concrete, render
from carver.run.spec import Kernel
from carver.run.worker import Settings
from tests.prepared import prepare

SPEC = TensorSpec("A", (4,), "float16", 8)


def program(*calls: Call) -> Program:
    source = Source(Path("kernel.cu"), {}, (), tuple(c.entry for c in calls), "sm_90")
    return Program(source, calls, 0, (SPEC,), TensorSpec("C", (4,), "float16", 8))


class Fake(ModuleType):
    """`pycuda.driver` as far as carver uses it; `log` is every call, in order."""

    class Error(Exception): ...

    class MemoryError(Error): ...

    class LogicError(Error): ...

    def __init__(self) -> None:
        super().__init__("pycuda.driver")
        self.log: list[tuple[Any, ...]] = []
        self.fail: dict[str, Exception] = {}
        self.devices = 1
        self.pushed = 0
        """Contexts of PyCUDA's own stack."""
        self.clock = 0

    def did(self, *what: Any) -> None:
        self.log.append(what)
        if what[0] in self.fail:
            raise self.fail[what[0]]

    def init(self) -> None:
        self.did("init")

    @property
    def Device(self) -> Any:
        fake = self

        class Context:
            def push(self) -> None:
                fake.pushed += 1

            def pop(self) -> None:
                fake.pushed -= 1

            def synchronize(self) -> None:
                fake.did("synchronize")

        class Device:
            def __init__(self, ordinal: int) -> None:
                fake.did("device", ordinal)

            @staticmethod
            def count() -> int:
                return fake.devices

            def name(self) -> str:
                return "NVIDIA H200"

            def retain_primary_context(self) -> Context:
                fake.did("primary context")
                return Context()

            def pci_bus_id(self) -> str:
                return "0000:01:00.0"

        return Device

    @property
    def Event(self) -> Any:
        fake = self

        class Event:
            at = 0

            def record(self, *stream: Any) -> None:
                fake.clock += 1
                self.at = fake.clock
                fake.did("record", *stream)

            def time_since(self, other: Any) -> float:
                return float(self.at - other.at)

        return Event

    def mem_alloc(self, size: int) -> int:
        self.did("alloc", size)
        return 0x1000

    def memset_d8(self, pointer: int, byte: int, size: int) -> None:
        self.did("fill", byte, size)

    def memset_d8_async(self, pointer: int, byte: int, size: int, *stream: Any) -> None:
        self.did("evict", byte, size, *stream)

    class Stream:
        handle = 77

        def __init__(self, flags: int) -> None:
            assert flags == 1  # non-blocking

    def memcpy_htod(self, pointer: int, array: np.ndarray) -> None:
        self.did("upload", array.tobytes())

    def memcpy_dtoh(self, array: np.ndarray, pointer: int) -> None:
        self.did("download", array.nbytes)
        array.view(np.uint8)[...] = 0x3F

    def get_version(self) -> tuple[int, int, int]:
        return (13, 0, 0)

    def get_driver_version(self) -> int:
        return 13000


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[Fake]:
    driver, package = Fake(), ModuleType("pycuda")
    monkeypatch.setattr(package, "driver", driver, raising=False)
    monkeypatch.setitem(sys.modules, "pycuda", package)
    monkeypatch.setitem(sys.modules, "pycuda.driver", driver)
    monkeypatch.setattr(cuda.arch, "CUDA", lambda name: arch.load("h200"))
    monkeypatch.setattr(detect, "nvidia_names", lambda: ["NVIDIA H200"] * driver.devices)
    monkeypatch.setattr(cuda.atexit, "register", lambda f: None)
    monkeypatch.setattr(cuda, "_library", lambda: Driver(driver.log))
    yield driver


@pytest.fixture
def device(fake: Fake) -> cuda.CudaDevice:
    opened = cuda.CudaDevice()
    fake.log.clear()
    return opened


def test_opening_takes_the_primary_context(fake: Fake) -> None:
    opened = open_device("cuda")
    assert (opened.kind, opened.name, opened.arch.name) == ("cuda", "NVIDIA H200", "h200_sxm")
    assert fake.log[-3:] == [("init",), ("device", 0), ("primary context",)] and fake.pushed == 1
    opened.fill(opened.empty((4,), "float32"), 0)
    assert fake.pushed == 1
    with ThreadPoolExecutor(1) as thread:
        thread.submit(lambda: open_device("cuda").empty((4,), "float32")).result()
    assert fake.pushed == 1, "PyCUDA ends a process in which a thread leaves it a context"


def test_auto_takes_the_gpu_where_there_is_one(fake: Fake) -> None:
    assert open_device("auto").kind == "cuda"
    fake.devices = 0
    assert open_device("auto").kind == "cpu"
    with pytest.raises(DeviceError, match="no device cuda:1; this machine has 0"):
        open_device("cuda:1")


def test_auto_is_a_device_that_the_hint_is_for(fake: Fake) -> None:
    hint = ElementwiseTemplate((4, 4), "float32").with_arch("cpu").recommend_hints(1)[0]
    x = np.ones((4, 4), np.float32)
    np.testing.assert_array_equal(compile_hint(hint)(x), x)
    assert ("init",) not in fake.log
    fake.devices = 0
    with pytest.raises(DeviceError, match="no device cuda:0"):
        compile_hint(ElementwiseTemplate((4, 4)).with_arch("h200").recommend_hints(1)[0])


def test_without_pycuda_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pycuda", None)
    with pytest.raises(DeviceError, match="pip install pycuda, or ask"):
        open_device("cuda")
    assert cuda.device_count() == 0


def test_auto_never_passes_over_a_gpu_that_cannot_be_used(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    fake.fail["init"] = Fake.LogicError("cuInit failed: unknown error")
    found = '"auto" is the NVIDIA H200 of this machine, not its CPU'
    with pytest.raises(DeviceError, match=f'{found}; .*CUDA does not start .*unknown error.* device="cpu"'):
        open_device("auto")
    monkeypatch.setitem(sys.modules, "pycuda", None)
    with pytest.raises(DeviceError, match=f'{found}; .*PyCUDA .* pip install pycuda, or ask for device="cpu"'):
        open_device("auto")
    fake.devices = 0
    assert open_device("auto").kind == "cpu"


def test_driver_that_does_not_start(fake: Fake) -> None:
    fake.fail["init"] = Fake.LogicError("cuInit failed: no CUDA-capable device is detected")
    with pytest.raises(DeviceError, match="no CUDA-capable device"):
        open_device("cuda")


def cubin(folder: Path) -> Binary:
    path = folder / "k.cubin"
    path.write_bytes(b"code")
    return Binary(path, hashlib.sha256(b"code").hexdigest(), "", False)


def test_load_and_launch(device: cuda.CudaDevice, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    library = Library("PPPqq", "PP")
    monkeypatch.setattr(cuda, "_library", lambda: library)
    calls = (
        Call("first", (7, 2, 3), 128, 100_000, ("A", None, "workspace", 5, 2**40)),
        Call("second", (1, 1, 1), 32, 0, ("workspace", "C")),
    )
    made = program(*calls)
    loaded = device.load(cubin(tmp_path), made)
    assert made.given == ("A", "workspace", "C") and ("attribute", 8, 100_000) in library.log
    assert loaded.resources["first"].registers == 72 and loaded.resources["second"].static_smem_bytes == 1024
    library.log.clear()
    loaded.launch({"A": 0x10, "C": 0x20, "workspace": 0x30})
    assert library.log == [
        ("launch", 8, [7, 2, 3, 128, 1, 1, 100_000], None, [0x10, None, 0x30, 5, 2**40], None),
        ("launch", 8, [1, 1, 1, 32, 1, 1, 0], None, [0x30, 0x20], None),
    ]
    device._stream = 77
    loaded.launch({"A": 0x10, "C": 0x20, "workspace": 0x30})
    assert [entry[3] for entry in library.log[2:]] == [77, 77]


@pytest.mark.parametrize("cold", [True, False])
def test_timing_evicts_before_each_run_or_all_and_waits_once(device: cuda.CudaDevice, fake: Fake, cold: bool) -> None:
    samples = device.time(lambda: fake.did("run"), 3, cold=cold)
    assert samples == [1e-3] * 3
    twice_l2 = 2 * arch.load("h200").l2_bytes
    expected: list[tuple[Any, ...]] = [] if cold else [("evict", 0, twice_l2)] * 3 + [("run",)]
    for i in range(3):
        expected += [("evict", i, twice_l2)] if cold else []
        expected += [("record",), ("run",), ("record",)]
    assert [e for e in fake.log if e[0] != "alloc"] == [*expected, ("synchronize",)]
    assert [e for e in fake.log if e[0] == "alloc"] == [("alloc", twice_l2)]


class Driver:
    """The driver library as far as a CUDA graph needs it; `log` is every call that takes a stream."""

    def __init__(self, log: list[tuple[Any, ...]], nodes: int = 1) -> None:
        self.log, self.nodes = log, nodes

    def __getattr__(self, name: str) -> Any:
        def call(*args: Any) -> int:
            self.log.extend((name, a.value) for a in args if isinstance(a, ctypes.c_void_p) and a.value == 77)
            if name == "cuGraphGetNodes":
                args[2]._obj.value = self.nodes
            return 0

        return call


def test_a_graph_is_captured_once_and_launched_between_events(
    device: cuda.CudaDevice, fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda, "_library", lambda: Driver(fake.log))
    monkeypatch.setitem(sys.modules, "torch", None)
    streams: list[int] = []
    samples = device.time(lambda: streams.append(device._stream), 2, timer="graph")
    assert samples == [1e-3] * 2 and streams == [77] and device._stream == 0
    log = [entry[0] for entry in fake.log if entry[0] != "alloc"]
    assert log == ["synchronize", "cuStreamBeginCapture_v2", "cuStreamEndCapture",
                   *["evict", "record", "cuGraphLaunch", "record"] * 2, "synchronize"]  # fmt: skip
    assert all(isinstance(entry[-1], Fake.Stream) for entry in fake.log if entry[0] in ("evict", "record"))
    monkeypatch.setattr(cuda, "_library", lambda: Driver(fake.log, nodes=0))
    with pytest.raises(RunError, match="nothing was launched on the stream"):
        device.time(lambda: None, timer="graph")


def cupti_of(records: Sequence[tuple[int, int, int]]) -> ModuleType:
    """NVIDIA's package, to which these kinds, starts and ends [ns] become known when it is flushed."""
    package, kept = ModuleType("cupti"), list[Any]()
    package.cupti = SimpleNamespace(  # type: ignore[attr-defined]
        ActivityKind=SimpleNamespace(CONCURRENT_KERNEL=10), activity_enable=lambda kind: None,
        activity_register_callbacks=lambda room, completed: kept.append(completed), activity_disable=lambda kind: None,
        activity_flush_all=lambda flag: kept[-1]([SimpleNamespace(kind=k, start=s, end=e) for k, s, e in records]),
    )  # fmt: skip
    return package


def test_cupti_says_when_the_first_kernel_of_a_run_began_and_the_last_ended(
    device: cuda.CudaDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two runs of two kernels, not in order; of kind 2 is the memory that is set between them."""
    records = [(10, 5000, 6000), (10, 1000, 3000), (2, 0, 900), (10, 3500, 4000), (10, 6500, 7500)]
    monkeypatch.setitem(sys.modules, "cupti", cupti_of(records))
    assert device.time(lambda: None, 2, timer="cupti") == pytest.approx([3e-6, 2.5e-6])
    assert device.time(lambda: None, 1, cold=False, timer="cupti") == pytest.approx([2.5e-6])  # the first warms L2
    with pytest.raises(RunError, match="4 kernels of 3 runs"):
        device.time(lambda: None, 3, timer="cupti")


def test_a_timer_that_is_not_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("carver.run.cuda.find_spec", lambda name: None)
    with pytest.raises(DeviceError, match="pip install cupti-python"):
        check_timer("cupti")
    with pytest.raises(ConfigError, match="no timer 'event'; did you mean 'events'"):
        Settings(timer="event")
    with pytest.raises(ConfigError, match="of the kind 'cpu' has one"):
        benchmark(MatmulTemplate(64, 64, 64).with_arch("cpu").recommend_hints(1), timer="graph", progress=False)


def test_copies_are_bits(device: cuda.CudaDevice, fake: Fake) -> None:
    buffer = upload(device, [1.0, -2.0], "bfloat16")
    assert fake.log == [("alloc", 4), ("upload", b"\x80\x3f\x00\xc0")]
    np.testing.assert_array_equal(device.download(buffer), decode(np.array([0x3F3F] * 2, np.uint16), "bfloat16"))
    device.fill(buffer, 0xFF)
    assert fake.log[-1] == ("fill", 0xFF, 4)


def test_errors_of_the_driver_are_ours(
    device: cuda.CudaDevice, fake: Fake, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake.fail["alloc"] = Fake.MemoryError("cuMemAlloc failed: out of memory")
    with pytest.raises(OutOfMemory, match="allocating 4096 bytes on NVIDIA H200: cuMemAlloc failed"):
        device.empty((1024,), "float32")
    fake.fail["synchronize"] = Fake.LogicError("an illegal memory access was encountered")
    with pytest.raises(RunError, match="illegal memory access"):
        device.synchronize()
    library = Library()
    monkeypatch.setattr(cuda, "_library", lambda: library)
    for library.fails, kind in ((700, RunError), (2, OutOfMemory)):  # CUDA_ERROR_ILLEGAL_ADDRESS, _OUT_OF_MEMORY
        with pytest.raises(kind, match=r"loading .*k\.cubin: an illegal memory access"):
            device.load(cubin(tmp_path), program())


def test_state_reads_nvidia_smi(device: cuda.CudaDevice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    smi = tmp_path / "nvidia-smi"
    smi.write_text("#!/bin/sh\necho '1980, 3201, 1980, 41, 117.5, 0x0000000000000004, 580.82.07'\n")
    smi.chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    assert device.state() == {
        "cuda": "13.0.0", "cuda_driver_version": 13000, "sm_clock_hz": 1.98e9, "memory_clock_hz": 3.201e9,
        "sm_clock_max_hz": 1.98e9, "temperature_c": 41.0, "power_w": 117.5,
        "throttle_reasons": "0x0000000000000004", "driver": "580.82.07",
    }  # fmt: skip
    smi.write_text("#!/bin/sh\necho '1980, [N/A], 1980, 41, [N/A], 0x0, 580.82.07'\n")
    assert "power_w" not in device.state() and device.state()["sm_clock_hz"] == 1.98e9


def test_arrays_on_the_device(fake: Fake) -> None:
    assert address(0x1234, SPEC, "cuda") == 0x1234
    with pytest.raises(RunError, match="takes torch tensors, PyCUDA arrays or pointers"):
        address(np.zeros(4, np.float16), SPEC, "cuda")


def test_a_gpu_is_known_by_its_uuid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda.detect, "cuda_uuid", lambda ordinal: f"uuid{ordinal}")
    assert lease_name("cuda:1") == "gpu uuid1" and lease_name("cuda") == "gpu uuid0"


def test_a_silent_nvidia_smi_is_told(device: cuda.CudaDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(*_: object, **__: object) -> None:
        raise subprocess.TimeoutExpired("nvidia-smi", 10)

    monkeypatch.setattr(cuda.shutil, "which", lambda _: "/bin/nvidia-smi")
    monkeypatch.setattr(cuda, "finished", silent)
    assert "timed out" in device.state()["nvidia_smi"] and "cuda" in device.state()


def test_misaligned_buffers_are_refused(device: cuda.CudaDevice) -> None:
    from carver.run.buffers import Buffer

    with pytest.raises(RunError, match="starts at 0x1004; the kernel was built for rows on multiples of 8 bytes"):
        address(Buffer(0x1004, (4,), "float16", None), SPEC, "cuda")


def test_hint_of_another_backend(device: cuda.CudaDevice) -> None:
    hint = (
        MatmulTemplate(64, 64, 64)
        .with_arch("h200")
        .rank([{"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32, "num_warps": 4, "num_stages": 3}], backend="triton")[0]
    )
    with pytest.raises(DeviceError, match="backend 'triton' cannot run"):
        compile_hint(hint)


# --- on a real GPU ----------------------------------------------------------------------------------------------

GPU = pytest.mark.skipif(not cuda.device_count(), reason="needs an NVIDIA GPU and PyCUDA")


@pytest.fixture(scope="module")
def gpu() -> cuda.CudaDevice:
    opened = open_device("cuda")
    assert isinstance(opened, cuda.CudaDevice)
    return opened


@pytest.mark.gpu
@GPU
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float8_e4m3", "int8"])
def test_upload_and_download(gpu: cuda.CudaDevice, dtype: str) -> None:
    values = np.random.default_rng(0).integers(-50, 50, (37, 5)).astype(np.float32)
    np.testing.assert_array_equal(gpu.download(upload(gpu, values, dtype)), decode(encode(values, dtype), dtype))


def adding(number: int, device: str = "cuda:0") -> Any:
    """`f(y, n)` sets each of 32 elements to n + number."""
    text = 'extern "C" __global__ void f(float *y, int n) { y[threadIdx.x] = n + NUMBER; }'
    params = [("y", (32,), "float32", True), ("n", None, "int32")]
    return jit(out_idx=0, target=device)(
        lambda: Kernel(text, "f", block=32, defines={"NUMBER": number}, params=params)
    )()  # fmt: skip


@pytest.mark.gpu
@GPU
def test_threads_without_a_context_run_kernels(gpu: cuda.CudaDevice) -> None:
    """One that is loaded, one that is not, and what else a device does."""
    torch = pytest.importorskip("torch")
    y, known, kept = torch.zeros(32, device="cuda"), adding(0), list[Any]()
    known(y, 5)

    def filled() -> None:
        kept.append(gpu.empty((32,), "float32"))
        gpu.fill(kept[0], 0)
        assert not gpu.download(kept[0]).any()

    for call, value in ((lambda: known(y, 9), 9), (lambda: adding(1)(y, 11), 12), (filled, 12)):
        with ThreadPoolExecutor(1) as thread:
            thread.submit(call).result()
        assert y.tolist() == [value] * 32


@pytest.mark.gpu
@GPU
def test_kernels_of_two_gpus_take_turns() -> None:
    """Whichever is torch's, and it stays so."""
    torch = pytest.importorskip("torch")
    if cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    kernels = [adding(0, f"cuda:{i}") for i in (0, 1)]
    ys = [torch.zeros(32, device=f"cuda:{i}") for i in (0, 1)]
    try:
        for n, (torchs, i) in enumerate([(0, 0), (0, 1), (0, 0), (1, 0), (1, 1), (1, 0), (0, 1), (0, 0)]):
            torch.cuda.set_device(torchs)
            kernels[i](ys[i], n)
            assert ys[i].tolist() == [n] * 32 and torch.cuda.current_device() == torchs
            adding(n, f"cuda:{1 - i}")(ys[1 - i], n)  # loaded for the first time
            assert ys[1 - i].tolist() == [2 * n] * 32 and torch.cuda.current_device() == torchs
    finally:
        torch.cuda.set_device(0)


@pytest.mark.gpu
@GPU
@pytest.mark.parametrize("m, n, k", [(1, 1, 1), (17, 33, 65), (256, 128, 512), (300, 1000, 77)])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_matmul_hints_compute_a_matmul(gpu: cuda.CudaDevice, m: int, n: int, k: int, dtype: str) -> None:
    template = MatmulTemplate(m, n, k, in_dtype=dtype, out_dtype="float32").with_arch(gpu.arch)
    rng = np.random.default_rng(1)
    a, b = (decode(encode(rng.standard_normal(s), dtype), dtype) for s in ((1, m, k), (1, k, n)))
    right = a.astype(np.float64) @ b.astype(np.float64)
    for hint in template.recommend_hints(3, backend="cuda"):
        kernel = prepare(render(hint, gpu.arch), gpu)
        c = gpu.empty((1, m, n), "float32")
        gpu.fill(c, 0xFF)
        kernel(upload(gpu, a, dtype), upload(gpu, b, dtype), c)
        gpu.synchronize()
        np.testing.assert_allclose(
            gpu.download(c), right, rtol=1e-3, atol=1e-5 * k**0.5 + 1e-5, err_msg=str(hint.config)
        )
        assert all(used.registers > 0 for used in kernel.loaded.resources.values())


@pytest.mark.gpu
@GPU
@pytest.mark.parametrize(("k", "trans_a", "trans_b"), [(304, False, True), (304, True, False), (301, False, False)])
def test_tensor_maps_follow_the_tensors(gpu: cuda.CudaDevice, k: int, trans_a: bool, trans_b: bool) -> None:
    """As it is loaded and by a launcher of its own; each launch has other tensors. k = 301: the maps are of copies."""
    template = MatmulTemplate(520, 264, k, trans_A=trans_a, trans_B=trans_b, out_dtype="float32").with_arch(gpu.arch)
    hint = next((h for h in template.recommend_hints(10_000, backend="cuda") if h.kernel == "tma"), None)
    if hint is None:
        pytest.skip("the GPU has no wgmma")
    kernel, rng = prepare(render(hint, gpu.arch), gpu), np.random.default_rng(4)
    names = ("A", "B", "C", "workspace")
    launched = gpu.launcher(kernel.binary, kernel.program, names)
    room = gpu.empty((max(1, kernel.program.workspace_bytes),), "int8")
    for _ in range(2):
        a, b = (decode(encode(rng.standard_normal(t.shape), t.dtype), t.dtype) for t in kernel.program.inputs)
        right = (a.swapaxes(1, 2) if trans_a else a).astype(np.float64) @ (b.swapaxes(1, 2) if trans_b else b)
        inputs = [upload(gpu, x, "float16") for x in (a, b)]
        for alone in (True, False):
            c = gpu.empty((1, 520, 264), "float32")
            gpu.fill(c, 0xFF)
            if alone:  # in a thread without a context
                ThreadPoolExecutor(1).submit(launched, [each.pointer for each in (*inputs, c, room)]).result()
            else:
                kernel(*inputs, c)
            gpu.synchronize()
            np.testing.assert_allclose(gpu.download(c), right, rtol=1e-3, atol=1e-3)


def on_gpu(gpu: cuda.CudaDevice, template: Template, *inputs: np.ndarray, **defines: str) -> np.ndarray:
    """What the first recommended kernel of our own makes of the inputs."""
    hint = template.with_arch(gpu.arch).recommend_hints(1, backend="cuda")[0]
    built = prepare(render(hint, gpu.arch, defines), gpu)
    out = gpu.empty(built.program.output.shape, built.program.output.dtype)
    gpu.fill(out, 0xFF)
    built(*(upload(gpu, x, t.dtype) for x, t in zip(inputs, built.program.inputs, strict=True)), out)
    gpu.synchronize()
    return gpu.download(out)


@pytest.mark.gpu
@GPU
@pytest.mark.parametrize("k", [64, 8192])
def test_a_float_bias_is_added_to_integer_sums_as_a_float(gpu: cuda.CudaDevice, k: int) -> None:
    bias = np.full(16, 0.5, np.float32)
    matmul = MatmulTemplate(16, 16, k, in_dtype="int8", out_dtype="float32", with_bias=True, trans_B=True)
    a = np.ones((1, 16, k))
    np.testing.assert_array_equal(on_gpu(gpu, matmul, a, a, bias), k + 0.5)
    gemv = GEMVTemplate(16, k, in_dtype="int8", out_dtype="float32", with_bias=True)
    np.testing.assert_array_equal(on_gpu(gpu, gemv, np.ones((1, k)), a, bias), k + 0.5)


@pytest.mark.gpu
@GPU
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("count", [100, 100_000])
def test_sums_of_int32_are_exact(gpu: cuda.CudaDevice, axis: int, count: int) -> None:
    shape = (3, count) if axis else (count, 3)
    x = np.full(shape, 2**31 - 1, np.int32)
    for op, right in (("sum", (2.0**31 - 1) * count), ("mean", 2.0**31 - 1), ("max", 2.0**31 - 1)):
        template = ReductionTemplate(op, shape, axis, in_dtype="int32", out_dtype="float64")
        np.testing.assert_array_equal(on_gpu(gpu, template, x), right, err_msg=op)
    top = ReductionTemplate("sum", shape, axis, in_dtype="int32", out_dtype="int32")
    np.testing.assert_array_equal(on_gpu(gpu, top, x), 2**31 - 1)


@pytest.mark.gpu
@GPU
@pytest.mark.parametrize("axis", [0, 1])
def test_a_block_keeps_the_rows_of_a_softmax_apart(gpu: cuda.CudaDevice, axis: int) -> None:
    """Masked elements are the lowest number or -inf; a NaN stays in its row."""
    x = np.random.default_rng(4).standard_normal((300, 100)).astype(np.float32)
    x[10], x[11], x[11, 5], x[12, 50:], x[13, 99] = -3e38, -np.inf, 0, -3e38, np.nan
    right = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    right /= right.sum(1, keepdims=True)
    x, right = (x, right) if axis else (x.T.copy(), right.T)
    config = {"block_r": 2 if axis else 128, "block_c": 128 if axis else 16, "threads": 64, "vec": 4}
    softmax = ReductionTemplate("softmax", x.shape, axis, in_dtype="float32").with_arch(gpu.arch)
    built = prepare(render(softmax.rank([config], "cuda")[0], gpu.arch), gpu)
    out = gpu.empty(x.shape, "float32")
    gpu.fill(out, 0xFF)
    built(upload(gpu, x, "float32"), out)
    gpu.synchronize()
    np.testing.assert_allclose(gpu.download(out), right, rtol=1e-5, atol=1e-12)


def normalised(op: str, x: np.ndarray) -> np.ndarray:
    """Along rows, in float64."""
    shifted = x - x.mean(1, keepdims=True)
    if op == "softmax":
        powers = np.exp(x - x.max(1, keepdims=True))
        return np.asarray(powers / powers.sum(1, keepdims=True))
    x = shifted if op == "layer_norm" else x
    return np.asarray(x / np.sqrt((x**2).mean(1, keepdims=True) + 1e-5))


CLOSE = {"float64": 1e-9, "float32": 1e-4, "float16": 4e-3, "bfloat16": 3e-2}


def along_rows(
    gpu: cuda.CudaDevice, op: str, x: np.ndarray, dtype: str, kernel: str, configs: Sequence[Mapping[str, int]]
) -> None:
    """What each configuration of a kernel computes, beside float64."""
    problem = ReductionTemplate(op, x.shape, in_dtype=dtype).problem
    given = upload(gpu, x, dtype)
    x = gpu.download(given).astype(np.float64)
    right = normalised(op, x) if op in NORMALISATIONS else {"sum": x.sum, "max": x.max, "mean": x.mean}[op](1)
    programs = [concrete(kernel_named("reduction", kernel, "cuda"), problem, config, gpu.arch) for config in configs]
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda program: compile_source(program.source, cuda_compiler()), programs))
    for config, program in zip(configs, programs, strict=True):
        built = prepare(program, gpu)
        out = gpu.empty(program.output.shape, program.output.dtype)
        gpu.fill(out, 0xFF)
        built(given, out)
        gpu.synchronize()
        np.testing.assert_allclose(gpu.download(out), right, CLOSE[dtype], CLOSE[dtype], err_msg=f"{op} {config}")


@pytest.mark.gpu
@GPU
@pytest.mark.parametrize("op", NORMALISATIONS)
@pytest.mark.parametrize("columns", [1, 7, 77, 333, 1030])
@pytest.mark.parametrize("rows", [1, 101])
def test_rows_that_start_inside_a_vector(gpu: cuda.CudaDevice, op: str, columns: int, rows: int) -> None:
    """Narrow and wide vectors move the same elements, and nothing beside the rows."""
    x = np.random.default_rng(5).standard_normal((rows, columns)) + 3
    configs = [{"block_r": 64 // lanes, "block_c": 128, "threads": 64, "vec": vec, "row_lanes": lanes}
               for vec, lanes in ((1, 32), (2, 8), (4, 4), (8, 4), (8, 16))]  # fmt: skip
    along_rows(gpu, op, x, "float16", "normalise", configs)


@pytest.mark.gpu
@GPU
@pytest.mark.parametrize(
    ("op", "shape", "dtype"),
    [
        *((op, (7, 1003), "float16") for op in NORMALISATIONS), *((op, (3, 7), "bfloat16") for op in NORMALISATIONS),
        *((op, (300, 100_003), "float16") for op in NORMALISATIONS), ("softmax", (5, 1), "float16"),
        ("layer_norm", (1, 77), "float32"), ("rms_norm", (9, 1000), "bfloat16"), ("softmax", (2, 131_072), "bfloat16"),
        ("softmax", (131, 1022), "float32"), ("layer_norm", (1, 4001), "bfloat16"), ("rms_norm", (2, 999), "float64"),
        ("rms_norm", (33, 65_537), "float32"),
    ],
)  # fmt: skip
def test_rows_held_in_shared_memory(gpu: cuda.CudaDevice, op: str, shape: tuple[int, int], dtype: str) -> None:
    """Rows that no cluster divides, rows that leave blocks without a part, and one row."""
    x, piece = np.random.default_rng(6).standard_normal(shape) * 2 + 1, 128 // dtypes.BYTES[dtype]
    shares = {n: -(-shape[1] // (n * piece)) * piece for n in ((1, 2, 4, 8) if gpu.arch.tma else (1,))}
    configs = [{"threads": threads, "cluster": n, "block_c": share} for n, share in shares.items()
               for threads in (64, 128, 512) if share * dtypes.BYTES[dtype] < 100_000]  # fmt: skip
    along_rows(gpu, op, x, dtype, "held", configs)


@pytest.mark.gpu
@GPU
@pytest.mark.parametrize(
    ("op", "shape", "dtype"),
    [
        *((op, (1003, 77), "float16") for op in REDUCTIONS), *((op, (2, 7), "bfloat16") for op in REDUCTIONS),
        ("softmax", (101, 333), "bfloat16"), ("sum", (101, 333), "float16"), ("rms_norm", (67, 100), "bfloat16"),
        ("mean", (67, 100), "float16"), ("softmax", (258, 65), "float32"), ("max", (258, 65), "float32"),
        ("layer_norm", (31, 1777), "float16"), ("sum", (31, 1777), "float16"), ("layer_norm", (77, 17), "float64"),
        ("softmax", (40, 1), "float32"),
    ],
)  # fmt: skip
def test_short_rows_as_one_run(gpu: cuda.CudaDevice, op: str, shape: tuple[int, int], dtype: str) -> None:
    x, c, width = np.random.default_rng(8).standard_normal(shape) + 1, shape[1], dtypes.BYTES[dtype]
    configs = [{"block_r": block_r, "threads": threads, "vec": vec, "lanes": lanes,
                "block_c": -(-c // (vec * lanes)) * vec * lanes}
               for block_r, threads, lanes in ((8, 32, 4), (16, 64, 8), (32, 64, 16), (8, 64, 32), (64, 128, 4),
                                               (512, 64, 1))
               for vec in (1, 2, 4) if c % vec == 0 and c <= 64 * lanes and block_r * c * width < 40_000]  # fmt: skip
    along_rows(gpu, op, x, dtype, "rows", configs)


@pytest.mark.gpu
@GPU
@pytest.mark.parametrize("op", ["softmax", "sum"])
def test_runs_that_start_inside_a_vector(gpu: cuda.CudaDevice, op: str) -> None:
    """Those of one row of 77 each, of which seven in eight do."""
    x = np.random.default_rng(9).standard_normal((77, 77))
    config = {"block_r": 1, "threads": 32, "vec": 1, "lanes": 32, "block_c": 96}
    along_rows(gpu, op, x, "float16", "rows", [config])


@pytest.mark.gpu
@GPU
@pytest.mark.parametrize("cluster", [2, 4, 8])
def test_blocks_of_a_cluster_add_up_what_they_have(gpu: cuda.CudaDevice, cluster: int) -> None:
    if not gpu.arch.tma:
        pytest.skip("clusters need compute capability 9.0")
    x = np.arange(1000 * 300).reshape(1000, 300) % 7
    for axis, tile in ((0, {"block_r": 64, "block_c": 32}), (1, {"block_r": 8, "block_c": 32})):
        template = ReductionTemplate("sum", x.shape, axis, in_dtype="int32", out_dtype="int32").with_arch(gpu.arch)
        config = {**tile, "threads": 64, "vec": 4, "split": 1, "cluster": cluster}
        built = prepare(render(template.rank([config], "cuda")[0], gpu.arch), gpu)
        out = gpu.empty((x.shape[1 - axis],), "int32")
        gpu.fill(out, 0xFF)
        built(upload(gpu, x, "int32"), out)
        gpu.synchronize()
        np.testing.assert_array_equal(gpu.download(out), x.sum(axis))


@pytest.mark.gpu
@GPU
@pytest.mark.parametrize("how", [{}, {"split": 4}, {"cluster": 4}])
@pytest.mark.parametrize("shape", [(7, 1000, 300), (300, 5, 33), (1, 64, 32)])
def test_columns_of_each_of_many_matrices_are_added_up(
    gpu: cuda.CudaDevice, how: dict[str, int], shape: tuple[int, ...]
) -> None:
    if how.get("cluster") and not gpu.arch.tma:
        pytest.skip("clusters need compute capability 9.0")
    x = np.arange(np.prod(shape)).reshape(shape) % 7
    template = GeneralReductionTemplate("SRS", shape, "int32", "int32").with_arch(gpu.arch)
    config = {"block_r": 16, "block_c": 32, "threads": 64, "vec": 1, "split": 1, "cluster": 1, **how}
    built = prepare(render(template.rank([config], "cuda", kernel="reduce")[0], gpu.arch), gpu)
    out = gpu.empty((shape[0], shape[2]), "int32")
    gpu.fill(out, 0xFF)
    built(upload(gpu, x, "int32"), out)
    gpu.synchronize()
    np.testing.assert_array_equal(gpu.download(out), x.sum(1))


@pytest.mark.gpu
@GPU
@pytest.mark.parametrize("columns", [4096, 4095, 7])
def test_repeated_inputs_of_elementwise_kernels(gpu: cuda.CudaDevice, columns: int) -> None:
    template = ElementwiseTemplate((1000, columns), "float32", inputs=1, broadcast=1)
    rng = np.random.default_rng(3)
    x, row = (rng.standard_normal(s, dtype=np.float32) for s in ((1000, columns), (columns,)))
    np.testing.assert_array_equal(on_gpu(gpu, template, x, row), x + row)
    x[5, 3] = np.nan
    np.testing.assert_array_equal(on_gpu(gpu, template, x, row, EXPRESSION="relu(x0)"), np.where(x < 0, 0, x))


@pytest.mark.gpu
@GPU
@pytest.mark.parametrize(("dtype", "out"), [("float8_e4m3", "float8_e4m3"), ("int8", "float16"), ("bfloat16", "int8")])
def test_sums_are_converted_after_the_last_product(gpu: cuda.CudaDevice, dtype: str, out: str) -> None:
    template = MatmulTemplate(256, 384, 512, trans_B=True, in_dtype=dtype, out_dtype=out)
    rng = np.random.default_rng(4)
    a, b = (rng.integers(-1, 2, s).astype(np.float32) for s in ((1, 256, 512), (1, 384, 512)))
    right = decode(encode(a @ b.swapaxes(1, 2), out), out)
    np.testing.assert_array_equal(on_gpu(gpu, template, a, b), right)


def older(device: str, config: str, *sizes: int, **options: Any) -> Any:
    """A matmul and how the tensor-core kernel runs it: block m, n and k, warp m and n, parts of the reduction."""
    names = ("block_m", "block_n", "block_k", "warp_m", "warp_n", "split_k")
    tunables = dict(zip(names, map(int, config.split()), strict=True)) | {"stages": 2, "group_m": 2}
    label = ",".join([device, config, "x".join(map(str, sizes)), *(f"{k}={v}" for k, v in options.items())])
    return pytest.param(device, MatmulTemplate(*sizes, **options).problem, tunables, id=label.replace(" ", "-"))


def turing(config: str, *sizes: int, **options: Any) -> Any:
    return older("t4", config, *sizes, **options)


def doubles(config: str, *sizes: int, **options: Any) -> Any:
    """On an A100, whose instruction for them takes 8 rows where those of later ones take 16."""
    return older("a100", config, *sizes, in_dtype="float64", **options)


@pytest.mark.gpu
@GPU
@pytest.mark.parametrize(
    ("older", "problem", "config"),
    [
        turing("128 256 32 64 64 1", 512, 768, 1024),
        turing("256 128 32 64 64 1", 500, 648, 1000, trans_B=True, out_dtype="float32"),
        turing("128 32 32 64 32 1", 330, 264, 520, trans_A=True),  # rows that two warps copy in more than one pattern
        turing("64 128 64 32 64 1", 200, 328, 136, trans_A=True, trans_B=True),
        turing("128 128 32 64 32 3", 300, 260, 1004, with_bias=True, activation="gelu"),  # 8 bytes at a time
        turing("32 64 64 16 32 1", 94, 66, 190, 3, trans_B=True, with_bias=True, activation="relu"),  # 4, a batch
        turing("64 64 32 32 32 2", 77, 131, 253, trans_A=True, out_dtype="float32"),  # 2
        turing("64 64 32 32 32 1", 129, 64, 333),  # 2 and 16
        turing("16 64 32 16 32 4", 1, 512, 1009, out_dtype="float32"),  # a row that ends within 16 bytes
        turing("16 16 32 16 16 1", 1, 1, 1),
        turing("32 32 32 16 16 8", 40, 40, 40),  # more parts than steps
        turing("128 64 64 64 32 1", 256, 192, 320, trans_B=True, accum_dtype="float16"),
        turing("32 256 64 32 64 1", 192, 528, 272, in_dtype="int8"),
        turing("128 128 64 64 32 2", 260, 132, 516, in_dtype="int8", trans_B=True),
        turing("64 64 128 32 32 1", 97, 101, 203, in_dtype="int8", trans_A=True, out_dtype="float16"),
        doubles("128 64 16 64 32 1", 256, 192, 320),
        doubles("64 128 32 32 64 1", 200, 330, 136, trans_A=True, trans_B=True, with_bias=True, activation="gelu"),
        doubles("64 64 8 32 32 2", 130, 70, 211, 3, trans_B=True),
        doubles("16 256 8 16 64 1", 33, 257, 65, trans_A=True, out_dtype="float32"),
        doubles("64 32 16 16 16 4", 1, 512, 1009),
    ],
)
def test_what_an_older_gpu_would_run(
    gpu: cuda.CudaDevice, older: str, problem: Problem, config: dict[str, int]
) -> None:
    """The tensor-core matmul as it is for `older`, in PTX, of which the driver makes code for any GPU from there on."""
    if cuda_compiler().kind != "nvcc":
        pytest.skip("NVRTC is asked for binaries only")
    chosen, meant = kernel_named("matmul", "mma", "cuda"), arch.load(older)
    assert not given_space(problem, meant, chosen, [config])[1]
    program = concrete(chosen, problem, config, meant)
    built = prepare(replace(program, source=replace(program.source, flags=(*program.source.flags, "-ptx"))), gpu)
    assert f".target {meant.isa}".encode() in built.binary.path.read_bytes()
    for exact in (False, True):
        values = reference.draw_exact(problem, 5) if exact else reference.draw(problem, 5)
        if values is None:
            continue
        right, magnitude = reference.expected(problem, {name: x.astype(np.float64) for name, x in values.items()})
        right = reference.representable(problem, right)
        allowed = reference.tolerance_exact(problem, right) if exact else reference.tolerance(problem, right, magnitude)
        out = gpu.empty(built.program.output.shape, built.program.output.dtype)
        gpu.fill(out, 0xFF)
        built(*(upload(gpu, values[t.name], t.dtype) for t in built.program.inputs), out)
        gpu.synchronize()
        seen = Differences(gpu.download(out).astype(np.float64), right, allowed)
        assert not seen.wrong, seen


@pytest.mark.gpu
@GPU
def test_cold_runs_are_slower_than_warm_ones(gpu: cuda.CudaDevice) -> None:
    """A copy that fits L2 has to come from DRAM when L2 was emptied."""
    hint = MatmulTemplate(64, 4096, 2048).with_arch(gpu.arch).recommend_hints(1, backend="cuda")[0]
    kernel = prepare(render(hint, gpu.arch), gpu)
    rng = np.random.default_rng(2)
    arrays = [upload(gpu, rng.standard_normal(s), "float16") for s in ((1, 64, 2048), (1, 2048, 4096), (1, 64, 4096))]
    pointers = kernel.pointers(*arrays)
    for _ in range(2):
        cold, warm = (np.median(gpu.time(lambda: kernel.loaded.launch(pointers), 20, cold=c)) for c in (True, False))
    assert cold > warm > 0


@pytest.mark.gpu
@GPU
def test_torch_tensors_share_the_context(gpu: cuda.CudaDevice) -> None:
    torch = pytest.importorskip("torch")
    a = torch.randn(1, 64, 96, device="cuda", dtype=torch.float16)
    b = torch.randn(1, 96, 80, device="cuda", dtype=torch.float16)
    kernel = compile_hint(MatmulTemplate(64, 80, 96).with_arch(gpu.arch).recommend_hints(1, backend="cuda")[0])
    c = kernel(a, b)
    assert c.shape == (1, 64, 80) and c.device == a.device
    torch.testing.assert_close(c, a @ b, rtol=1e-2, atol=1e-2)
    flat = torch.empty(96 * 64 + 1, device="cuda", dtype=torch.float16)[1:].view(1, 64, 96).copy_(a)
    with pytest.raises(RunError, match="the kernel was built for rows on multiples of"):
        kernel(flat, b)


@pytest.mark.gpu
@GPU
def test_state_of_a_real_gpu(gpu: cuda.CudaDevice) -> None:
    assert gpu.state()["cuda_driver_version"] >= 12000


@pytest.mark.gpu
@GPU
def test_bandwidth_of_l2_does_not_depend_on_how_the_data_divides(gpu: cuda.CudaDevice) -> None:
    bench = Gpu(gpu)
    data = gpu.empty((gpu.arch.l2_bytes // 4,), "int8")
    gpu.fill(data, 1)
    rates = []
    for part in (4, 5, 7):
        size = gpu.arch.l2_bytes // part & -(1 << 16)
        run, moved = bench.stream(bench.source("stream"), data, data, size, 256, (2, 1024))
        rates.append(moved / np.median(bench.seconds(run)))
    assert max(rates) < 1.3 * min(rates)


class Library:
    """`libcuda` as far as launches need it: `log` has each launch with its arguments as the driver would read them."""

    def __init__(self, *letters: str) -> None:
        self.letters, self.log = cycle(letters), list[Any]()
        """Of the arguments of each launch, over and over."""
        self.fails = 0
        self.here = threading.local()
        """The context of each thread: 1 + the ordinal of its GPU."""
        self.asked = 0

    def cuDeviceGet(self, device: Any, ordinal: int) -> int:
        device._obj.value = ordinal
        return 0

    def cuDevicePrimaryCtxRetain(self, context: Any, device: Any) -> int:
        context._obj.value = 1 + device.value
        return 0

    def cuCtxGetCurrent(self, context: Any) -> int:
        self.asked += 1
        context._obj.value = getattr(self.here, "context", None)
        return 0

    def cuCtxSetCurrent(self, context: Any) -> int:
        self.here.context = context.value
        return 0

    def cuModuleLoadData(self, module: Any, image: bytes) -> int:
        module._obj.value = 7
        self.log.append(("module", image))
        return self.fails

    def cuFuncGetAttribute(self, value: Any, attribute: int, function: Any) -> int:
        """Of cuda.h: SHARED_SIZE_BYTES, LOCAL_SIZE_BYTES, NUM_REGS."""
        value._obj.value = {1: 1024, 3: 0, 4: 72}[attribute]
        return 0

    def cuModuleGetFunction(self, function: Any, module: Any, name: bytes) -> int:
        function._obj.value = 8
        self.log.append(("function", module.value, name))
        return 0

    def cuFuncSetAttribute(self, function: Any, attribute: int, value: int) -> int:
        self.log.append(("attribute", attribute, value))
        return 0

    def cuLaunchKernel(self, function: Any, *rest: Any) -> int:
        *extents, stream, pointers, extra = rest
        kinds = {"P": ctypes.c_void_p, "i": ctypes.c_int32, "f": ctypes.c_float, "q": ctypes.c_int64}
        read = [kinds[k].from_address(pointers[i]).value for i, k in enumerate(next(self.letters))]
        self.log.append(("launch", function.value, [n.value for n in extents], stream.value, read, extra))
        return self.fails

    def cuGetErrorString(self, code: int, text: Any) -> int:
        text._obj.value = b"an illegal memory access was encountered"
        return 0


class Gpus(Library):
    """Of several GPUs: a module is of the context that it was loaded in, and is launched in no other."""

    def cuModuleLoadData(self, module: Any, image: bytes) -> int:
        module._obj.value = getattr(self.here, "context", None)
        return 0 if module._obj.value else 201

    def cuModuleGetFunction(self, function: Any, module: Any, name: bytes) -> int:
        function._obj.value = module.value
        return 0

    def cuLaunchKernel(self, function: Any, *rest: Any) -> int:
        if (current := getattr(self.here, "context", None)) != function.value:
            return 400 if current else 201
        return super().cuLaunchKernel(function, *rest)

    def cuTensorMapEncodeTiled(self, *_: Any) -> int:
        return 0 if getattr(self.here, "context", None) else 201


@pytest.mark.parametrize("loads", ["main", "other"])
@pytest.mark.parametrize("current", [None, 1, 2])
def test_kernels_run_where_they_belong_in_any_thread(
    loads: str, current: int | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Whatever context a thread has, which it has afterwards too."""
    library = Gpus("P")
    monkeypatch.setattr(cuda, "_library", lambda: library)
    (tmp_path / f"{loads}{current}.cubin").write_bytes(b"code")
    binary = Binary(tmp_path / f"{loads}{current}.cubin", hashlib.sha256(b"code").hexdigest(), "")
    made = program(Call("f", (1, 1, 1), (32, 1, 1), 0, ("C",)))
    launch = {i: cuda.launcher(binary, made, ["C"], i) for i in (0, 1)} if loads == "main" else {}

    def work() -> None:
        library.here.context = current
        for ordinal in (0, 1, 0):
            launch.setdefault(ordinal, cuda.launcher(binary, made, ["C"], ordinal))((0x10,))
            assert library.here.context == current

    rows = TensorMap("C", 0, "float16", (64, 8), 128, (64, 8))
    maps = ThreadPoolExecutor(1).map(lambda ordinal: cuda.encoded(rows, id(library), ordinal), (0, 1))
    assert [len(each) for each in maps] == [128, 128]
    for run in (lambda: ThreadPoolExecutor(1).submit(work).result(), work):
        library.log.clear()
        run()
        assert [entry[1] for entry in library.log if entry[0] == "launch"] == [1, 2, 1]
    asked, library.here.context = library.asked, 1
    launch[0]((0x10,))
    assert library.asked == asked, "where it is current already nobody asks"


def test_launches_through_the_driver_itself(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    library = Library("PPifqP")
    monkeypatch.setattr(cuda, "_library", lambda: library)
    (tmp_path / "a.cubin").write_bytes(b"code")
    binary = Binary(tmp_path / "a.cubin", hashlib.sha256(b"code").hexdigest(), "")
    args = ("C", "A", Scalar("i", 3), Scalar("f", "alpha"), 5, None)
    made = program(Call("f", (1, 2, 3), (32, 1, 1), 512, args))
    go = cuda.launcher(binary, made, ["A", "C", "alpha", "workspace"], 0)
    go((0x1000, 0x2000, 0.5, None))
    go((0x1000, None, 2, None), 99)
    expected = [1, 2, 3, 32, 1, 1, 512]
    assert library.log == [
        ("module", b"code"), ("function", 7, b"f"), ("attribute", 8, 512),
        ("launch", 8, expected, None, [0x2000, 0x1000, 3, 0.5, 5, None], None),
        ("launch", 8, expected, 99, [None, 0x1000, 3, 2.0, 5, None], None),
    ]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda i: go((i, i, float(i), None), i), range(1, 200)))
    assert all(read[:2] == [stream, stream] and read[3] == stream for *_, stream, read, _ in library.log[5:])
    library.fails = 700
    with pytest.raises(RunError, match=r"launching kernel\.cu: an illegal memory access"):
        go((0x1000, 0x2000, 0.5, None))
