"""Chains of statements, and what it is worth to run them as one kernel.

    chain = Chain("S[b,q,s] += Q[b,q,d] * K[b,s,d]", "P[b,q,s] = softmax(S[b,q,s])", "O[b,q,e] += P[b,q,s] * V[b,s,e]",
                  b=64, q=4096, s=4096, d=128, e=128)
    chain.fused(tile={"q": 128}, step={"s": 64}, arch=carver.CUDA("h200"))
    chain.recommend_hints("h200", topk=3)

A statement contracts, as everywhere, or applies an operator word to whole tensors: element by element (`relu`,
`gelu`, `silu`, `exp`, `add`, `mul`, `silu_mul`; `X[m,n] + B[n]` is `add(X[m,n], B[n])`) or along the last index
(`softmax`, `layer_norm`, `rms_norm`).
`chain.graph` is a networkx DiGraph whose nodes are tensors. The tile of the last output propagates backwards: each
tensor's tile is what the tiles that are made from it touch, through the affine indices. A row-wise word needs its
whole row, with one exception: a softmax whose row is contracted next can be rescaled while it is walked.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from math import ceil, prod
from typing import TYPE_CHECKING

from ..arch.descriptor import Arch
from ..arch.devices import load
from ..base import dtypes
from ..base.errors import ArchError, NotationError, ProblemError, nearest
from ..base.given import takes
from ..base.types import Record
from ..cost.model import CONSTANTS
from ..problem import notation
from ..problem.notation import Statement, Tensor
from ..problem.problem import Problem, size
from ..ranking.ranking import Ranking
from .attention import FlashAttentionTemplate
from .elementwise import ElementwiseTemplate
from .matmul import ACTIVATIONS, GatedMLPTemplate, MatmulSoftmaxTemplate
from .operator import Template, accumulator, roles
from .reduction import ReductionTemplate

if TYPE_CHECKING:
    import networkx as nx

ELEMENTWISE = {"relu": 1, "gelu": 1, "silu": 1, "exp": 1, "add": 2, "mul": 2, "silu_mul": 2}
"""Operator words that act element by element, and how many tensors each takes."""

ROW_WISE = ("softmax", "layer_norm", "rms_norm")
"""Operator words that act along the last index."""

_APPLIED = re.compile(r"(?P<out>[^=]+?)\s*=\s*(?P<word>[a-z_]+)\s*\((?P<args>.*)\)\s*")
_OPERAND = re.compile(r"[A-Za-z_]\w*\s*\[[^\[\]]*\]")


class Node(Statement):
    """One statement of a chain: `combine` is "+=" for a contraction, else the operator word."""

    @property
    def word(self) -> str:
        return self.combine

    def __str__(self) -> str:
        if self.combine == "+=":
            return super().__str__()
        return f"{self.output} = {self.word}({', '.join(map(str, self.inputs))})"


class Fusion(Record):
    """A chain as one kernel with one tile, against a kernel a statement. Bytes are the device's, tiles a block's."""

    tiles: Mapping[str, tuple[int, ...]]
    """Extent of each tensor's tile. [elements]"""
    blocks: int
    smem_bytes: int
    """External operands of the contractions, `stages` buffers of each that is walked."""
    registers: int
    """Sums of the contractions in float32, and what passes from one to the next at its own width. [32-bit, a block]"""
    flops: int
    """With what blocks compute again because they share a row. [FLOP]"""
    separate_flops: int
    l2_bytes: int
    """What all blocks read and write, each for itself."""
    dram_bytes: int
    """External operands read once, the last output written once."""
    separate_dram_bytes: int
    saved_bytes: Mapping[str, int]
    """What each tensor that stays on chip would have cost: written once, read by each statement that takes it."""
    saved_s: Mapping[str, float]
    """Those bytes at the rate of DRAM, or of L2 where the tensor fits it, and the launch of one kernel."""


class Comparison(Record):
    """Predicted times of a chain as one kernel and as several. [s]"""

    fused_s: float
    separate_s: Mapping[str, float]
    """By the tensor that each kernel makes."""

    @property
    def saved_s(self) -> float:
        """What the fused kernel saves; negative where it is the slower way."""
        return sum(self.separate_s.values()) - self.fused_s


class Chain:
    """Several statements in the order of their computation, with the size of each axis."""

    @takes(ProblemError, words="dtype$")
    def __init__(self, *statements: str, in_dtype: str = "float16", **sizes: int) -> None:
        if not statements:
            raise ProblemError("a chain needs at least one statement, such as 'C[m,n] += A[m,k] * B[k,n]'")
        self.dtype = dtypes.canonical(in_dtype)
        self.nodes = tuple(map(_node, statements))
        self.sizes = {axis: size(axis, value) for axis, value in sizes.items()}
        axes = {axis for node in self.nodes for axis in node.axes}
        if self.sizes.keys() != axes:
            raise ProblemError(
                f"the chain has axes {', '.join(sorted(axes))}; got sizes for {', '.join(sorted(sizes))}"
            )
        made: dict[str, Tensor] = {}
        for node in self.nodes:
            for tensor in node.inputs:
                source = made.get(tensor.name)
                if source and source.shape(self.sizes) != tensor.shape(self.sizes):
                    raise ProblemError(
                        f"{node}: {tensor.name} is made as {source} of {source.shape(self.sizes)}, "
                        f"taken as {tensor} of {tensor.shape(self.sizes)}"
                    )
            if node.output.name in made or any(node.output.name == t.name for t in self.external):
                raise ProblemError(f"{node}: {node.output.name} exists already; give each result its own name")
            made[node.output.name] = node.output
        taken = {t.name for node in self.nodes for t in node.inputs}
        if unused := [n.output.name for n in self.nodes[:-1] if n.output.name not in taken]:
            raise ProblemError(f"{unused[0]} is computed and never used; a chain ends in one output")

    @property
    def external(self) -> tuple[Tensor, ...]:
        """Operands that no statement computes, each once."""
        made = {node.output.name for node in self.nodes}
        seen = {t.name: t for node in self.nodes for t in node.inputs if t.name not in made}
        return tuple(seen.values())

    @property
    def output(self) -> Tensor:
        return self.nodes[-1].output

    @cached_property
    def graph(self) -> nx.DiGraph:
        """Tensors as nodes, `statement` on those that are made; an edge from each operand to the result."""
        import networkx as nx

        graph = nx.DiGraph()
        for node in self.nodes:
            graph.add_edges_from((t.name, node.output.name) for t in node.inputs)
            graph.nodes[node.output.name]["statement"] = node
        return graph

    @takes(ProblemError)
    def tiles(self, tile: Mapping[str, int], step: Mapping[str, int] | None = None) -> dict[str, tuple[int, ...]]:
        """The extent of each tensor's tile, for a tile of the last output and of the axes over which the kernel loops.

        An axis that neither names is taken whole. Raises ProblemError if a row-wise word would see only part of a row.
        """
        walked = {**tile, **(step or {})}
        if unknown := walked.keys() - self.sizes.keys():
            raise ProblemError(f"no axis {min(unknown)!r} in the chain; {nearest(min(unknown), self.sizes)}")
        extent = {axis: min(size(axis, walked.get(axis, whole)), whole) for axis, whole in self.sizes.items()}
        out = {self.output.name: tuple(extent[axis] for axis in self.output.axes)}
        for node in reversed(self.nodes):
            own = extent | dict(zip(node.output.axes, out[node.output.name], strict=True))
            if node.word in ROW_WISE and own[node.output.axes[-1]] < self.sizes[node.output.axes[-1]]:
                self._check_online(node)
            for t in node.inputs:
                wanted = t.shape(own)
                out[t.name] = tuple(map(max, out.get(t.name, wanted), wanted))
        return out

    def _check_online(self, node: Node) -> None:
        """A softmax may be walked in pieces only by contractions over the axis that it normalises."""
        axis = node.output.axes[-1]
        takers = [each for each in self.nodes if any(t.name == node.output.name for t in each.inputs)]
        if node.word != "softmax" or not takers or not all(axis in each.reduced for each in takers):
            raise ProblemError(f"{node} needs whole rows: leave {axis!r} out of the tile, or run it as its own kernel")

    @takes(ProblemError)
    def fused(
        self, tile: Mapping[str, int], arch: Arch | str, step: Mapping[str, int] | None = None, stages: int = 2
    ) -> Fusion:
        """What one kernel with this tile needs, and what it saves compared with one kernel per statement.

        `step` has the extents of axes over which a block loops. Operands that these axes index have `stages` buffers.
        """
        device = load(arch)
        if stray := tile.keys() - set(self.output.axes):
            raise ProblemError(f"{min(stray)!r} is no axis of {self.output}: what a block walks goes into step")
        tiles, swept = self.tiles(tile, step), self.tiles(tile)
        walked, width = step or {}, dtypes.BYTES[self.dtype]
        blocks = prod(ceil(self.sizes[a] / n) for a, n in zip(self.output.axes, swept[self.output.name], strict=True))
        fed = {t.name for node in self.nodes if node.word == "+=" for t in node.inputs}
        smem = registers = flops = 0
        for t in self.external:
            if t.name in fed:
                buffers = size("stages", stages) if any(axis in walked for axis in t.axes) else 1
                smem += prod(tiles[t.name]) * width * buffers
        for node in self.nodes:
            elements = prod(tiles[node.output.name])
            if node.word == "+=":
                registers += elements
            if node.output.name in fed:
                registers += ceil(elements * width / 4)
            flops += blocks * self._flops(node, dict(zip(node.output.axes, swept[node.output.name], strict=True)))
        inside = [node.output for node in self.nodes[:-1]]
        saved = {
            t.name: self._bytes(t) * (1 + sum(t.name in {i.name for i in node.inputs} for node in self.nodes))
            for t in inside
        }
        launch_s, share = CONSTANTS["launch_s"].prior, CONSTANTS["dram_efficiency"].prior
        rate = {
            t.name: device.l2_bytes_per_s
            if self._bytes(t) <= CONSTANTS["l2_usable"].prior * device.l2_bytes
            else device.dram_bytes_per_s * share
            for t in inside
        }
        external = sum(map(self._bytes, self.external)) + self._bytes(self.output)
        per_block = sum(prod(swept[t.name]) for t in (*self.external, self.output))
        return Fusion(
            tiles=tiles,
            blocks=blocks,
            smem_bytes=smem,
            registers=registers,
            flops=flops,
            separate_flops=sum(self._flops(node, {}) for node in self.nodes),
            l2_bytes=blocks * per_block * width,
            dram_bytes=external,
            separate_dram_bytes=sum(self._bytes(t) for node in self.nodes for t in (node.output, *node.inputs)),
            saved_bytes=saved,
            saved_s={name: n / rate[name] + launch_s for name, n in saved.items()},
        )

    def _bytes(self, t: Tensor) -> int:
        return int(t.footprint(self.sizes)) * dtypes.BYTES[self.dtype]

    def _flops(self, node: Node, extent: Mapping[str, int]) -> int:
        sizes = {**self.sizes, **extent}
        return (2 if node.word == "+=" else 1) * prod(sizes[axis] for axis in node.axes)

    @property
    def template(self) -> Template:
        """The chain as a template of the fused kernel that carver declares. Raises ProblemError if there is none.

        Known chains: a matmul followed by `add` of a vector or by an activation; silu_mul, or silu and mul, of two
        matmuls with a common operand; a matmul and a softmax; attention.
        """
        words = [node.word for node in self.nodes]
        first = self.nodes[0]
        if words[0] == "+=" and len(first.inputs) == 2:
            if words[1:] == ["softmax", "+="]:
                return self._attention()
            if words[1:] == ["softmax"] and self._feeds(0, 1):
                r = self._roles(first)
                b, m, n, k = (prod(self.sizes[axis] for axis in r[role]) for role in "bmnk")
                return MatmulSoftmaxTemplate(m, n, k, b, first.inputs[1].axes[-1] in r["k"], in_dtype=self.dtype)
            if words.count("+=") == 2 and [word for word in words if word != "+="] in (["silu_mul"], ["silu", "mul"]):
                return self._gated()
            if all(word in (*ACTIVATIONS, "add") for word in words[1:]):
                return self._epilogue()
        names = "; ".join(map(str, self.nodes))
        raise ProblemError(f"no kernel runs '{names}' as one: recommend its statements one by one, or cut the chain")

    @takes(ArchError, besides="arch")
    def with_arch(self, arch: Arch | str | os.PathLike[str]) -> Template:
        """The fused kernel on a device."""
        return self.template.with_arch(arch)

    def recommend_hints(self, arch: Arch | str, topk: int = 10, backend: str | None = None) -> Ranking:
        """The `topk` fastest configurations of the fused kernel."""
        return self.with_arch(arch).recommend_hints(topk, backend)

    def compare(self, arch: Arch | str, backend: str = "triton") -> Comparison:
        """Compare the fused kernel with one kernel per statement, each at its best configuration."""
        device = load(arch)
        separate = {
            node.output.name: float(self._alone(node).with_arch(device).recommend_hints(1, backend).seconds[0])
            for node in self.nodes
        }
        return Comparison(float(self.recommend_hints(device, 1, backend).seconds[0]), separate)

    def _alone(self, node: Node) -> Template:
        """One statement as an operator of its own."""
        if node.word == "+=":
            return Chain(str(node), in_dtype=self.dtype, **{axis: self.sizes[axis] for axis in node.axes}).template
        shape = node.output.shape(self.sizes)
        if node.word == "softmax":
            return ReductionTemplate("softmax", (prod(shape[:-1]), shape[-1]), in_dtype=self.dtype)
        full = sum(t.index == node.output.index for t in node.inputs)
        return ElementwiseTemplate(shape, self.dtype, max(full, 1), broadcast=len(node.inputs) - full)

    def _roles(self, node: Node) -> dict[str, tuple[str, ...]]:
        left, right = (t.axes for t in node.inputs)
        b, m, n, _ = map(tuple, roles(left, right, node.output.axes))
        return {"b": b, "m": m, "n": n, "k": node.reduced}

    def _feeds(self, producer: int, consumer: int) -> bool:
        return self.nodes[consumer].inputs[0].name == self.nodes[producer].output.name

    def _attention(self) -> Template:
        scores, _, product = self.nodes
        if not (self._feeds(0, 1) and self._feeds(1, 2)):
            raise ProblemError(f"{self.nodes[1]} and {product} do not follow from {scores}: no attention")
        r = self._roles(scores)
        if len(r["n"]) != 1 or len(r["k"]) != 1 or product.reduced != r["n"] or not r["m"]:
            raise ProblemError(f"{scores} with {product} is no attention: one axis of keys and one of the head")
        batch, group = (prod(self.sizes[axis] for axis in axes) for axes in (r["b"], r["m"][:-1]))
        value = next(axis for axis in product.output.axes if axis not in scores.output.axes)
        return FlashAttentionTemplate(
            1, batch * group, batch, self.sizes[r["m"][-1]], self.sizes[r["n"][0]], self.sizes[r["k"][0]],
            in_dtype=self.dtype, value_dim=self.sizes[value],
        )  # fmt: skip

    def _gated(self) -> Template:
        gate, up = (node for node in self.nodes if node.word == "+=")
        *silu, last = (node for node in self.nodes if node.word != "+=")
        behind = {node.output.name: node.inputs[0].name for node in silu}
        r, other = self._roles(gate), self._roles(up)
        if gate.inputs[0] != up.inputs[0] or r != other or {behind.get(t.name, t.name) for t in last.inputs} != {
            gate.output.name, up.output.name
        } or r["b"]:  # fmt: skip
            raise ProblemError(f"{gate} and {up} are no gated MLP: both multiply the same operand, unbatched")
        m, n, k = (prod(self.sizes[axis] for axis in r[role]) for role in "mnk")
        return GatedMLPTemplate(m, n, k, gate.inputs[1].axes[-1] in r["k"], in_dtype=self.dtype)

    def _epilogue(self) -> Template:
        matmul, rest = self.nodes[0], self.nodes[1:]
        words = [node.word for node in rest]
        columns = matmul.output.axes[-1:]
        if any(not self._feeds(i, i + 1) for i in range(len(rest))):
            raise ProblemError("an epilogue takes the result before it as its first operand")
        if any(node.word == "add" and node.inputs[1].axes != columns for node in rest):
            raise ProblemError(f"an epilogue adds a vector along {columns[0]!r}, a bias; other operands need a kernel")
        if len(words) > 2 or "add" in words[1:] or (len(words) == 2 and words[0] != "add"):
            raise ProblemError(f"an epilogue is a bias, an activation, or one after the other; got {', '.join(words)}")
        activation = next((ACTIVATIONS[word] for word in words if word in ACTIVATIONS), 0)
        options = {"bias": int("add" in words), "activation": activation}
        statement = notation.parse(str(matmul))
        types = {t.name: self.dtype for t in statement.tensors}
        sizes = {axis: self.sizes[axis] for axis in statement.axes}
        return Template(Problem("matmul", str(matmul), sizes, types, accumulator(self.dtype), options))

    def __repr__(self) -> str:
        return f"Chain({'; '.join(map(str, self.nodes))})"


def _node(text: str) -> Node:
    """One statement of a chain, by its form: a word with brackets, or index notation."""
    text = notation.bounded(text)
    match = _APPLIED.fullmatch(text)
    if match is None:
        statement = notation.parse(text)
        if statement.combine == "=" and len(statement.inputs) == 2:
            whole_first = sorted(statement.inputs, key=lambda tensor: tensor.index != statement.output.index)
            return _elementwise(statement.output, whole_first, "add" if len(statement.summands) == 2 else "mul")
        if statement.combine != "+=" or len(statement.inputs) < 2:
            raise NotationError(
                f"{text!r}: a chain contracts with '+=', adds or multiplies two tensors with '=', or applies a word "
                "such as 'P[m,n] = softmax(S[m,n])'"
            )
        return Node(statement.output, statement.summands, "+=")
    word, args = match["word"], _OPERAND.findall(match["args"])
    known = {**ELEMENTWISE, **dict.fromkeys(ROW_WISE, 1)}
    if word not in known:
        raise NotationError(f"{text!r}: unknown operator {word!r}; {nearest(word, known)}")
    if len(args) != known[word] or re.sub(r"[\s,]", "", _OPERAND.sub("", match["args"])):
        raise NotationError(
            f"{text!r}: {word} takes {known[word]} tensor{'s' * (known[word] > 1)}, got {match['args']!r}"
        )
    # index notation checks the rest: plain output axes, each of them in some input
    statement = notation.parse(f"{match['out']} = {' * '.join(args)}")
    return _elementwise(statement.output, statement.inputs, word)


def _elementwise(output: Tensor, inputs: Sequence[Tensor], word: str) -> Node:
    node = Node(output, (tuple(inputs),), word)
    if inputs[0].index != output.index:
        raise NotationError(f"{str(node)!r}: {word} keeps the shape of its first operand")
    return node
