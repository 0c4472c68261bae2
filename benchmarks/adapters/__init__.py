"""Tables of other projects, each read through the adapter of its vocabulary, for `benchmarks/tables.py`.

A table is recognised by what its description says it holds, never by its name:

* `NAME.meta.json` beside its data, whose `op` and `dataset` say which kernel was tuned
* `*.json.gz` with `configs` and `results`
* lists of tuned winners: folders of vLLM's and SGLang's JSON files, AITER's CSVs, logic files and stream-K's YAML
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from carver.arch.descriptor import Arch
from carver.base.errors import ConfigError, ProblemError
from carver.base.given import json_of, text_of
from carver.calibrate import tables
from carver.calibrate.tables import OWN, Case, Formats, Remark, device, insist

from . import kernel_tuner, lists, serving, tensile, triton, winners
from .winners import Winner

Adapter = Callable[[Path, str, Mapping[str, Any], Arch], Iterator[Case | str]]
"""Folder, name, description and device of a table, to its cases and remarks."""
ADAPTERS: Mapping[str, Adapter] = {
    **dict.fromkeys(("mm", "addmm", "bmm", "mixed_mm"), triton.inductor),
    "flex_attention": triton.flex_attention,
    "conv2d_direct": kernel_tuner.convolution,
    "dedispersion": kernel_tuner.dedispersion,
    "gemm": kernel_tuner.xgemm,
    "Tensile": tensile.gemm,
}
"""Which adapter reads a table, by the `op` of its description, else by the first word of its `dataset`."""
LISTS: Mapping[str, Callable[[Path, str, Mapping[str, Any]], Iterator[Winner | str]]] = {
    "Tuned": serving.table,
    "AITER": lists.aiter_table,
    "ROCm/triton": lists.streamk_table,
    "ROCm/rocBLAS": tensile.table,
    "ROCm/hipBLASLt": tensile.table,
}
"""The same for lists of winners, which may be of many devices."""


def _find(folder: Path) -> set[Path]:
    """The files below a folder that may be tables; a folder of tuned files is one."""
    files = [p for p in folder.rglob("*") if p.name.endswith((".meta.json", ".json.gz", ".csv", ".yaml", ".yml"))]
    return {*files, *(p.parent for p in folder.rglob("*.json") if serving.is_tuned_file(p))}


def _read(path: Path) -> Iterator[Case | Winner | str] | None:
    if path.is_dir():
        return serving.folder(path, path.name)
    if serving.is_tuned_file(path):
        raise ConfigError("one of many tuned files: give the folder")
    if path.suffix in (".yaml", ".yml"):
        return (lists.streamk_file if lists.is_streamk(path) else tensile.logic_file)(path, path.name)
    if path.name.endswith(".meta.json"):
        return _described(path)
    if path.name.endswith(".json.gz"):
        data = json_of(text_of(path, ConfigError), "the table", ConfigError, finite=False)
        return None if isinstance(data, dict) and "cases" in data else _packed(path, data)
    return lists.aiter_file(path, path.name) if path.suffix == ".csv" and lists.is_aiter(path) else None


def _described(path: Path) -> Iterator[Case | Winner | str]:
    facts = json_of(text_of(path, ConfigError), "the description", ConfigError)
    if not isinstance(facts, dict):
        raise ConfigError("a description is a JSON object")
    said = facts.get("op") or str(facts.get("dataset", "")).partition(" ")[0]
    if said in LISTS:
        yield from LISTS[said](path.parent, path.name.removesuffix(".meta.json"), facts)
        return
    adapter = ADAPTERS.get(said)
    if adapter is None:
        named = f"op {facts['op']!r}" if facts.get("op") else f"dataset {facts.get('dataset')!r} without an op"
        raise ProblemError(f"no adapter reads {named}; there are {', '.join((*ADAPTERS, *LISTS))}")
    arch, remark = device(str(facts.get("gpu", "")), str(facts.get("arch", "")))
    yield remark
    yield from adapter(path.parent, path.name.removesuffix(".meta.json"), facts, arch)


def _packed(path: Path, data: Any) -> Iterator[Case | str]:
    results = data.get("results") if isinstance(data, dict) else None
    first = results[0] if isinstance(results, list) and results and isinstance(results[0], dict) else {}
    form = next((form for key, form in triton.FORMS.items() if key in first), None)
    if form is None:
        raise ProblemError("neither results by problem or shape, nor cases of benchmarks/confirm.py")
    arch, remark = device(str(data.get("device", "")), str(data.get("arch", "")))
    yield remark
    yield from form(path.name, data, arch)


FORMATS = (Formats(_find, _read, winners.summarise, winners.table), *OWN)
"""With carver's own."""


def read(path: Path, say: Callable[[Remark], None] = insist) -> Iterator[Case]:
    """Every measured problem of a file or folder, carver's own tables among them."""
    return tables.read(path, say, FORMATS)


def read_all(path: Path, say: Callable[[Remark], None] = insist) -> Iterator[Case | Winner]:
    """The same, and the winners of lists."""
    return tables.read_all(path, say, FORMATS)
