"""Programs compiled and loaded on a device, for tests that give them memory of their own."""

from __future__ import annotations

from dataclasses import dataclass

from carver.run.buffers import Buffer, Loaded, address
from carver.run.compile import Binary
from carver.run.device import Device
from carver.run.render import Program


@dataclass(frozen=True)
class Prepared:
    """A program with what it needs between its launches."""

    program: Program
    binary: Binary
    device: Device
    loaded: Loaded
    workspace: Buffer | None

    def pointers(self, *tensors: object) -> dict[str, int]:
        """Checked addresses of the inputs in order and the output, as `loaded.launch` takes them."""
        found = {
            spec.name: address(t, spec, self.device.kind, writes=spec is self.program.output)
            for spec, t in zip(self.program.tensors, tensors, strict=True)
        }
        return found | {"workspace": self.workspace.pointer if self.workspace else 0}

    def __call__(self, *tensors: object) -> None:
        """Run on inputs and output."""
        self.loaded.launch(self.pointers(*tensors))


def prepare(program: Program, device: Device) -> Prepared:
    binary = device.compile(program.source)
    workspace = device.empty((program.workspace_bytes,), "int8") if program.workspace_bytes else None
    return Prepared(program, binary, device, device.load(binary, program), workspace)
