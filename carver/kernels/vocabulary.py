"""The meanings of the names that a problem and a device provide to the expressions of a declaration."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

VECTOR, MMA, WGMMA, TCGEN05 = range(4)
"""Values of the column `instruction`: what multiplies a tile."""
MEANINGS: Mapping[str, str] = MappingProxyType({
    "arch": "the device; `arch.<field>` is a number of its descriptor",
    "<tensor>_bytes": "size of an element of that tensor (name in lower case) [bytes]",
    "in_bytes": "size of an element of the first input [bytes]",
    "out_bytes": "size of an element of the output [bytes]",
    "acc_bytes": "size of an accumulator [bytes]",
    "align_<tensor>": "alignment that a copy of the tensor may rely on, at most 16; `align_out`: the output [bytes]",
    "row_align_<tensor>": "alignment of each row of the tensor [bytes]",
    "by_16_<tensor>": "the distance between the tensor's rows is a multiple of 16 elements",
    "matrix": "the device has a matrix instruction for the types",
    "mma": "that instruction is one that a warp issues: mma.sync, wmma",
    "wgmma": "that instruction is wgmma",
    "tcgen05": "that instruction is tcgen05",
    "mma_m": "rows of the warp-level matrix instruction, at most 16; 1 without one",
    "mma_n": "columns of the warp-level matrix instruction, at most 16; 1 without one",
    "mma_k": "depth of the warp-level matrix instruction; 1 without one",
    "matrix_widens": "the fastest matrix instruction needs the operands in a wider type",
    "mma_widens": "the warp-level matrix instruction needs the operands in a wider type",
    "amd_float8": "some tensor is of AMD's 8-bit floats (fnuz)",
    "widen_instr": "instructions to convert an element to the type of AMD's matrix instruction; 0 where it takes it",
    "one_type": "all inputs have the same type",
    "a_converts": "the first input is converted before it is multiplied; `b_converts` the second",
    "a_float8": "the first input is of 8-bit floats; `b_float8` the second",
    "tf32": "some tensor is of TF32",
    "e4m3": "some tensor is of float8_e4m3",
    "a_integer": "the first input is of integers; `b_integer` the second",
    "a_unsigned": "the first input is of unsigned integers; `b_unsigned` the second",
    "a_k_last": "the innermost axes of the first input are summed over; `b_k_last` for the second",
    "a_k_contiguous": "the first input's innermost axis longer than 1 is summed over; `b_k_contiguous`: the second's",
    "a_run": "contiguous elements of the first input along axes of that kind; `b_run` for the second",
    "a_reuse": "distinct elements of the first input over rows x depth, below 1 for windows; `b_reuse`: the second",
    "window_rows": "number of separate rows of the first input that the window of one output covers",
    "window_reach": "elements that the taps in one of these rows span",
    "plain": "the statement is written as the operator's, so that its arguments have their usual meaning",
    "inputs": "tensors that are read; `operands` is the same",
    "operands": "tensors that are read; `inputs` is the same",
    "axis": "the innermost axis of the first input is reduced",
    "reduce_op": "0 sum, 1 maximum, 2 mean, 3 softmax, 4 layer norm, 5 RMS norm",
    "keeps_shape": "a reduction that stores as much as it reads: softmax and the norms",
    "flops_per_element": "arithmetic operations per element",
    "trans_a": "A is stored K x M; `trans_b`: B is stored N x K",
    "trans_b": "B is stored N x K; `trans_a`: A is stored K x M",
    "bias": "a bias is added",
    "activation": "number of the activation, 0 for none",
    "static_shapes": "strides are constants for the compiler",
    "m": "contractions: extent of the axes that are in the output and the first input only [elements]",
    "n": "contractions: extent of the axes that are in the output and the second input only [elements]",
    "k": "contractions: extent of the axes that are summed over [elements]",
    "b": "contractions: extent of the axes that are in the output and both inputs [elements]",
    "r": "rows of the first input as stored, where nothing is contracted [elements]",
    "c": "columns of the first input as stored, where nothing is contracted [elements]",
    "elements": "elements of the whole statement: the product of all extents",
    "read_bytes": "size of all inputs [bytes]",
    "write_bytes": "size of the output [bytes]",
    "scattered": "number of tensors of an element-wise statement that are read or written across their rows",
    "scattered_elements": "elements of these tensors",
    "repeated": "number of inputs of an element-wise statement that lack an axis of the output",
    "repeated_bytes": "size of those inputs that lack the outer axis, times its extent [bytes]",
})  # fmt: skip
"""Meanings by name or pattern: `<tensor>` stands for a tensor's name in lower case, or `out`."""


def meaning(name: str) -> str | None:
    """Meaning of a name in scope; None for axes and options, which are described in the operator's `op.toml`."""
    if name in MEANINGS:
        return MEANINGS[name]
    if re.match(r"b_(converts|float8|e4m3|integer|unsigned|k_last|k_contiguous|run|reuse)$", name):
        return MEANINGS["a" + name[1:]]
    for pattern, text in MEANINGS.items():
        if "<tensor>" in pattern and re.fullmatch(pattern.replace("<tensor>", r"\w+"), name):
            return text
    return None
