"""The command line."""

from __future__ import annotations

import click


@click.group()
def main() -> None:
    """Tile configurations for GPU and CPU kernels, ranked and explained by a cost model."""
