"""`python -m carver`: the command line."""

from .cli.main import main

main(prog_name="carver")
