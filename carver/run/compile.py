"""Sources, also those that came as text or from another host, to binaries in the store.

Compiling needs no device. An entry of the store names the binary, which is a file that carries its own hash in its
name, so that two processes that build the same key cannot tear an entry. One that does not hash to its name is built
again; a folder that others may write to is refused.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import hashlib
import json
import os
import re
import shutil
import subprocess
import sysconfig
import threading
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Literal

from ..base import store
from ..base.children import finished, lacked
from ..base.errors import CompileError, CompilerFailed, CompileTimeout, DeviceError, Foreign, KernelError, RunError
from ..base.folders import check_owner, folder, kept, private, scratch, sweep
from ..base.given import shown
from ..base.types import Record
from .render import Source, parts_of

KIND = "binary"
"""Of entries of the store."""
TIMEOUT_S = 300.0
VERSION_S = 30.0
_BUILDING = "building-"
_USUAL_CUDA = "/usr/local/cuda/bin"


class Binary(Record):
    """A compiled source; `cached`: earlier."""

    path: Path
    sha256: str
    log: str
    cached: bool = True

    def checked(self) -> Path:
        """The file, right before it is loaded. Raises RunError if it is not the one that was compiled."""
        check_owner(self.path.parent)
        check_owner(self.path)
        if hashlib.sha256(self.path.read_bytes()).hexdigest() != self.sha256:
            raise RunError(f"{self.path} is not the file that was compiled: it was changed; remove it")
        return self.path


class Compiler(Record):
    kind: Literal["nvcc", "nvrtc", "hip", "cc"]
    path: Path
    version: str
    """For the CPU it also says what "native" means here."""
    flags: tuple[str, ...] = ()

    @property
    def identity(self) -> str:
        """Everything of the compiler that a binary depends on."""
        return " ".join((self.kind, self.version, *self.flags))


_NVCC_FLAGS = ("-cubin", "-O3", "-Xptxas", "-v")
_HIP_FLAGS = ("-x", "hip", "-S", "-O3", "--offload-device-only", "--no-gpu-bundle-output")
_WITHOUT_ROCM = ("-nogpulib", "-nogpuinc")
# nvcc lets device code call constexpr helpers that carry no annotation; NVRTC has to be told
_NVRTC_FLAGS = ("--ptxas-options=-v", "--device-as-default-execution-space")


def cuda_compiler() -> Compiler:
    """nvcc from $CARVER_NVCC, $CUDA_HOME/bin, the PATH or /usr/local/cuda; else NVRTC."""
    usual = (*(str(home / "bin") for home in _cuda_homes()), None, _USUAL_CUDA)
    found = (shutil.which("nvcc", path=where) for where in usual)
    if path := _chosen("CARVER_NVCC", "nvcc") or next(filter(None, found), None):
        return _nvcc(Path(path), Path(path).stat().st_mtime_ns)
    library = _find_nvrtc()
    if library is None:
        raise DeviceError(
            "no CUDA compiler: neither nvcc ($CARVER_NVCC, $CUDA_HOME/bin, PATH, /usr/local/cuda) nor NVRTC was found; "
            "install the CUDA toolkit, or 'pip install nvidia-cuda-nvrtc' for this Python"
        )
    return _nvrtc(library)


def hip_compiler() -> Compiler:
    """clang for AMD's GPUs: $CARVER_HIP_CLANG, ROCm's own, or the newest of the PATH. It makes assembly. For one that
    comes without ROCm there is `for_amd`."""
    rocm = Path(os.environ.get("ROCM_PATH", "/opt/rocm"))
    names = ("clang++", *(f"clang++-{version}" for version in range(30, 16, -1)))
    found = (shutil.which("clang++", path=rocm / "llvm" / "bin"), *map(shutil.which, names))
    path = _chosen("CARVER_HIP_CLANG", "clang") or next(filter(None, found), None)
    if path is None:
        raise DeviceError(
            "no HIP compiler: clang was found neither in $CARVER_HIP_CLANG nor in ROCm ($ROCM_PATH, /opt/rocm) nor in "
            "the PATH; install clang 17 or later, for example 'apt install clang-19 lld-19'"
        )
    installed = (rocm / "include" / "hip" / "hip_runtime.h").is_file()
    flags = (*_HIP_FLAGS, *((f"--rocm-path={rocm}",) if installed else _WITHOUT_ROCM))
    return Compiler("hip", Path(path), _version(Path(path)).strip().splitlines()[0], flags)


def for_amd(source: Source, compiler: Compiler) -> Source:
    """The source with carver's header in the place of HIP's, where the compiler comes without ROCm."""
    if not set(_WITHOUT_ROCM) <= set(compiler.flags):
        return source
    common = folder("templates") / "common"
    return replace(source, flags=(*source.flags, f"-I{common}", "-include", str(common / "hip" / "hip_runtime.h")))


def _chosen(variable: str, what: str) -> str | None:
    """The program that an environment variable names; None where it is not set."""
    if not (chosen := os.environ.get(variable)):
        return None
    if (path := shutil.which(chosen)) is None:
        raise DeviceError(f"{variable}={chosen!r} is not a program; set it to the path of {what}, or unset it")
    return path


def _cuda_homes() -> list[Path]:
    return [Path(home) for name in ("CUDA_HOME", "CUDA_PATH") if (home := os.environ.get(name))]


def c_compiler() -> Compiler:
    """$CC, else cc, gcc or clang from the PATH."""
    path = _chosen("CC", "a C compiler") or next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if path is None:
        raise DeviceError(
            "no C compiler: none of $CC, cc, gcc, clang was found; install one with OpenMP, for example "
            "'apt install gcc', 'dnf install gcc' or 'brew install gcc'"
        )
    return _cc(Path(path), Path(path).stat().st_mtime_ns)


def compile_source(
    source: Source, compiler: Compiler, timeout_s: float | None = None, stop: threading.Event | None = None
) -> Binary:
    """The binary of a source, from the cache where it is there. Raises CompileError with the compiler's log.

    A compiler that takes longer than `timeout_s` (`TIMEOUT_S`), or that runs when another thread sets `stop`, is killed
    with all it started: CompileTimeout. NVRTC, which runs in this process, is waited for. Where the compiler could not
    do its work, for want of memory or disk or because it was killed, it is asked once more; then CompilerFailed.
    """
    handed = (part for flag in source.flags if not flag.startswith("-Wl,") for part in parts_of(flag))
    if refused := [flag for flag in (*source.flags, *handed) if _UNKNOWN_FILE.match(flag)]:
        raise KernelError(
            f"the flag {refused[0]!r} names a file that decides what is compiled, and of which the cache would not "
            "see a change: write out what it says"
        )
    key = source.key(compiler.identity)
    if (body := store.get(KIND, [key]).get(key)) is not None and (found := binary_of(body)) is not None:
        return found
    suffix = {"cc": ".so", "hip": ".s"}.get(compiler.kind, ".cubin")
    home = private(store.BLOBS)
    try:
        with scratch(home, _BUILDING) as workshop:
            out, limit_s = workshop / f"out{suffix}", timeout_s or TIMEOUT_S
            try:
                log = _made(source, compiler, out, limit_s, stop)
            except CompilerFailed:
                log = _made(source, compiler, out, limit_s, stop)
            path = store.blob(out.read_bytes(), suffix)
    except OSError as e:
        raise CompilerFailed(f"{source.path.name}: {home}: {e.strerror or e}; make room there") from None
    store.put(KIND, key, json.dumps({"binary": path.name, "log": log}).encode())
    return Binary(path, path.stem, log, cached=False)


def binary_of(body: bytes) -> Binary | None:
    """What an entry of the store names; None where it is absent, damaged or unreadable: built anew."""
    try:
        entry = json.loads(body)
        path = store.blob_of(entry["binary"], Path(entry["binary"]).stem)
        return None if path is None else Binary(path, path.stem, str(entry["log"]))
    except (Foreign, ValueError, KeyError, TypeError, RecursionError):
        return None


_UNKNOWN_FILE = re.compile(
    "@|--?specs|-fplugin|-wrapper|-B|--options-file|-optf|-Xclang|-load|-fprofile-use|--?sysroot|-isysroot|-iprefix"
    "|-iwithprefix|--include-(?:with-)?prefix|-ivfsoverlay|-include-pch"
)
"""Flags that make the compiler read or run a file which no key of a binary covers."""


def _defines(source: Source) -> list[str]:
    return [f"-D{name}={value}" for name, value in source.defines.items()]


def _made(source: Source, compiler: Compiler, out: Path, timeout_s: float, stop: threading.Event | None) -> str:
    """Compiles the source to `out`; the compiler's log."""
    if compiler.kind == "nvrtc":
        return _run_nvrtc(source, compiler, out)
    targets = {"nvcc": [f"-arch={source.isa}"], "hip": [f"--offload-arch={source.isa}"]}
    target, libraries = targets.get(compiler.kind, []), ["-lm"] * (compiler.kind == "cc")
    language = ["-x", "cu"] * (compiler.kind == "nvcc" and source.path.suffix != ".cu")
    begin = [str(compiler.path), *compiler.flags, *target, *language, *source.flags, f"-I{folder('templates')}"]
    macros, end = _defines(source), [str(source.path), "-o", str(out), *libraries]
    said = " ".join([*begin, *macros, *end])
    if compiler.kind == "nvcc":  # they come after the headers that it includes itself, where `depth` is a name, too
        header = out.with_name("macros.h")
        header.write_text("".join(f"#define {name} {value}\n" for name, value in source.defines.items()))
        macros = ["-include", str(header)]
    try:
        done = finished([*begin, *macros, *end], timeout_s, stop)
    except subprocess.TimeoutExpired as e:
        raise CompileTimeout(f"{source.path.name}: the compiler was stopped after {e.timeout:.3g} s") from None
    log = (done.stdout + done.stderr).strip()
    if done.returncode or not out.is_file():
        is_of_source = _DIAGNOSTIC.search(log) and not lacked(log)  # nor of what another time may be better
        kind = CompilerFailed if done.returncode < 0 or not is_of_source else CompileError
        raise kind(f"{source.path.name}: {compiler.path.name} failed ({said})", log)
    return log


_DIAGNOSTIC = re.compile(r"\berror\b ?[:#]|undefined reference|multiple definition|undefined symbol", re.IGNORECASE)


def sweep_binaries() -> None:
    """Remove what compilations of processes that were killed have left in the cache."""
    sweep(kept(store.BLOBS), _BUILDING)


@lru_cache(maxsize=8)
def _nvcc(path: Path, modified_ns: int) -> Compiler:
    release = re.search(r"V\d[\d.]*", said := _version(path))
    if release is None:
        raise DeviceError(f"{path} --version names no release: {shown(said)}")
    return Compiler("nvcc", path, release[0], _NVCC_FLAGS)


def _version(path: Path) -> str:
    """What a compiler says of itself, in at most `VERSION_S`."""
    try:
        done = finished([str(path), "--version"], VERSION_S)
    except (subprocess.TimeoutExpired, OSError) as e:
        raise DeviceError(f"{path} --version failed: {e}") from None
    if done.returncode or not done.stdout.strip():
        said = (done.stdout + done.stderr).strip() or "it says nothing"
        raise DeviceError(f"{path} --version failed: {shown(said)}; it must be a compiler that names its version")
    return done.stdout


@lru_cache(maxsize=8)
def _cc(path: Path, modified_ns: int) -> Compiler:
    version = _version(path).strip().splitlines()[0]
    for native in ("-march=native", "-mcpu=native"):  # clang on Arm knew only the second for long
        macros = finished([str(path), native, "-dM", "-E", "-x", "c", os.devnull], TIMEOUT_S)
        if not macros.returncode:
            # The instruction set of this machine is part of the key: a cache folder may be shared by several.
            isa = hashlib.sha256(macros.stdout.encode()).hexdigest()[:16]
            return Compiler("cc", path, f"{version} isa {isa}", (native,))
    raise DeviceError(f"{path} takes neither -march=native nor -mcpu=native; set CC to gcc or clang")


def _find_nvrtc() -> Path | None:
    """libnvrtc in the toolkit, in NVIDIA's wheels for this Python, or where the loader looks."""
    wheels = Path(sysconfig.get_paths()["purelib"]) / "nvidia"
    patterns = [(home, pattern) for home in _cuda_homes() for pattern in ("lib64/libnvrtc.so*", "lib/libnvrtc.so*")]
    patterns += [(wheels, "cu*/lib/libnvrtc.so*"), (wheels, "cuda_nvrtc/lib/libnvrtc.so*")]
    for where, pattern in patterns:
        if found := sorted(p for p in where.glob(pattern) if "builtins" not in p.name and "alt" not in p.name):
            return found[-1]
    name = ctypes.util.find_library("nvrtc")
    return Path(name) if name else None


@lru_cache(maxsize=2)
def _nvrtc(library: Path) -> Compiler:
    lib = _nvrtc_library(library)
    major, minor = ctypes.c_int(), ctypes.c_int()
    lib.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    return Compiler("nvrtc", library, f"{major.value}.{minor.value}", _NVRTC_FLAGS)


def _nvrtc_library(library: Path) -> ctypes.CDLL:
    """With its part that it looks for by name alone: in NVIDIA's wheels no loader would find that."""
    try:
        if library.is_absolute():  # else the loader knows where, and this folder is anybody's
            for builtins in library.parent.glob("libnvrtc-builtins.so*"):
                ctypes.CDLL(str(builtins))
        return ctypes.CDLL(str(library))
    except OSError as e:
        raise DeviceError(f"NVRTC at {library}: {e}; install the CUDA toolkit or set CARVER_NVCC") from None


def _run_nvrtc(source: Source, compiler: Compiler, out: Path) -> str:
    lib = _nvrtc_library(compiler.path)
    program = ctypes.c_void_p()

    def text(what: str) -> bytes:
        size = ctypes.c_size_t()
        getattr(lib, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value or 1)
        getattr(lib, f"nvrtcGet{what}")(program, buffer)
        return buffer.raw[: size.value]

    options = [f"--gpu-architecture={source.isa}", *compiler.flags]
    options += [*source.flags, f"-I{folder('templates')}", f"-I{source.path.parent}", *_defines(source)]
    encoded = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
    failed = lib.nvrtcCreateProgram(
        ctypes.byref(program), source.path.read_bytes(), source.path.name.encode(), 0, None, None
    )
    if failed:
        raise CompileError(f"{source.path.name}: NVRTC could not start (error {failed})")
    try:
        failed = lib.nvrtcCompileProgram(program, len(options), encoded)
        log = text("ProgramLog").rstrip(b"\0").decode(errors="replace").strip()
        if failed:
            raise CompileError(f"{source.path.name}: NVRTC failed ({' '.join(options)})", log)
        out.write_bytes(text("CUBIN"))
    finally:
        lib.nvrtcDestroyProgram(ctypes.byref(program))
    return log


def bundle(source: Source) -> dict[str, bytes]:
    """A source and what it includes from its folder or below, by the names there, the source first. What it includes
    from elsewhere stays there: carver's own headers, those of a flag's folder."""
    home = source.path.parent
    found = {path: content for _, path, content in source.files()}
    return {path.relative_to(home).as_posix(): found[path] for path in found if path.is_relative_to(home)}
