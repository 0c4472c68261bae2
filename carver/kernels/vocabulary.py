"""What the names that a problem and a device give to the expressions of a declaration mean."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

MEANINGS: Mapping[str, str] = MappingProxyType({
    "arch": "the device; `arch.<field>` is a number of its descriptor",
    "<tensor>_bytes": "an element of the tensor of that name, in lower case [bytes]",
    "in_bytes": "an element of the first input [bytes]",
    "out_bytes": "an element of the output [bytes]",
    "acc_bytes": "a sum [bytes]",
    "align_<tensor>": "what one copy of the tensor may rely on, at most 16; `align_out` for the output [bytes]",
    "row_align_<tensor>": "what each row of the tensor starts on a multiple of [bytes]",
    "by_16_<tensor>": "16 elements divide the distance of the tensor's rows",
    "matrix": "the device has a matrix instruction for the types",
    "mma": "that is one that a warp issues: mma.sync, wmma",
    "wgmma": "that is wgmma",
    "tcgen05": "that is tcgen05",
    "mma_m": "rows of the matrix instruction of a warp, at most 16; 1 without one",
    "mma_n": "its columns, at most 16; 1 without one",
    "mma_k": "its depth; 1 without one",
    "matrix_widens": "the fastest matrix instruction takes the operands widened",
    "mma_widens": "that of a warp does",
    "one_type": "all inputs have one type",
    "a_converts": "the first input is converted before it is multiplied; `b_converts` the second",
    "a_float8": "the first input is of 8-bit floats; `b_float8` the second",
    "a_e4m3": "the first input is of float8_e4m3; `b_e4m3` the second",
    "a_integer": "the first input is of integers; `b_integer` the second",
    "a_unsigned": "the first input is of unsigned integers; `b_unsigned` the second",
    "a_k_last": "axes that are summed over lie innermost in the first input; `b_k_last` in the second",
    "a_k_contiguous": "the innermost axis of the first input that is longer than 1 is summed over; `b_k_contiguous`",
    "a_run": "elements of the first input that axes of that kind walk side by side; `b_run`",
    "a_reuse": "distinct elements of the first input over rows x depth, below 1 where windows overlap; `b_reuse`",
    "window_rows": "rows apart in memory that a window of the first input walks for one output",
    "window_reach": "elements that the taps of one of those rows reach over",
    "plain": "the statement is spelt as the operator's, so that arguments mean what they are called",
    "inputs": "tensors that are read; `operands` is the same",
    "operands": "tensors that are read; `inputs` is the same",
    "axis": "the innermost axis of the first input is reduced",
    "reduce_op": "0 sum, 1 maximum, 2 mean, 3 softmax, 4 layer norm, 5 RMS norm",
    "keeps_shape": "a reduction that stores as much as it reads: softmax and the norms",
    "flops_per_element": "arithmetic on each element",
    "trans_a": "A is stored K x M; `trans_b`: B is stored N x K",
    "trans_b": "B is stored N x K; `trans_a`: A is stored K x M",
    "bias": "a bias is added",
    "activation": "the number of the activation, 0 for none",
    "static_shapes": "the compiler sees strides as constants",
    "m": "extent of the axes that the output shares with the first input of a contraction alone [elements]",
    "n": "extent of those that it shares with the second alone [elements]",
    "k": "extent of those that are summed over [elements]",
    "b": "extent of those that output and both inputs share [elements]",
    "r": "rows of the first input as it lies in memory, where nothing is contracted [elements]",
    "c": "its columns [elements]",
    "elements": "of the whole statement: the product of all extents",
    "read_bytes": "of all inputs [bytes]",
    "write_bytes": "of the output [bytes]",
    "scattered": "tensors of an element-wise statement that are walked across their rows",
    "scattered_elements": "elements of those",
    "repeated": "inputs of an element-wise statement that lack an axis of the output",
    "repeated_bytes": "bytes of those that lack the outer axis, as often as it repeats them",
})  # fmt: skip
"""By name, or by pattern: `<tensor>` stands for a tensor's name in lower case, or `out`."""


def meaning(name: str) -> str | None:
    """Of a name in scope; None for axes and options, which an operator's op.toml has words for."""
    if name in MEANINGS:
        return MEANINGS[name]
    if re.match(r"b_(converts|float8|e4m3|integer|unsigned|k_last|k_contiguous|run|reuse)$", name):
        return MEANINGS["a" + name[1:]]
    for pattern, text in MEANINGS.items():
        if "<tensor>" in pattern and re.fullmatch(pattern.replace("<tensor>", r"\w+"), name):
            return text
    return None
