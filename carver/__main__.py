"""`python -m carver`: the command line."""

from .cli import main

main(prog_name="carver")
