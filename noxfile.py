"""Sessions for whoever works on carver: `nox` runs lint, types and tests; `nox -l` lists all."""

from __future__ import annotations

import nox

nox.options.sessions = ["lint", "types", "tests"]
nox.options.reuse_existing_virtualenvs = True


@nox.session(python=["3.11", "3.12", "3.13", "3.14"])
def tests(session: nox.Session) -> None:
    """The test suite; arguments go to pytest: `nox -s tests-3.11 -- tests/test_model.py -x`."""
    session.install("-e", ".[dev]")
    session.run("python", "-m", "pytest", *session.posargs)


@nox.session(python="3.11")
def exhaustive(session: nox.Session) -> None:
    """What CI runs a sample of, for who changes that part: `nox -s exhaustive -- tests/test_nvcc.py`."""
    session.install("-e", ".[dev,export-test,notebook]")
    session.run("python", "-m", "pytest", "-m", "exhaustive", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Ruff, and the direction of imports."""
    session.install("-e", ".[dev]")
    session.run("ruff", "check", ".")
    session.run("lint-imports", "--no-cache")


@nox.session
def types(session: nox.Session) -> None:
    """mypy --strict."""
    session.install("-e", ".[dev]")
    session.run("mypy", *session.posargs)


@nox.session
def docs(session: nox.Session) -> None:
    """The site in build/site; `nox -s docs -- serve` shows it while it is written."""
    session.install("-e", ".[docs]")
    session.run("mkdocs", *(session.posargs or ["build", "--strict"]))


@nox.session(python="3.11")
@nox.parametrize("triton", ["3.3.1", "3.9.0"])
def tritons(session: nox.Session, triton: str) -> None:
    """Kernels of every construct, ranked with an old and a new Triton: `nox -s tritons`, about a minute each."""
    session.install("-e", ".", f"triton=={triton}")
    session.run("python", "tests/any_kernels.py", *(session.posargs or ["--arch", "h100"]))


@nox.session
def goldens(session: nox.Session) -> None:
    """Rewrite tests/golden from the model as it is. Look at the difference before you commit it."""
    session.install("-e", ".[dev]")
    session.run("python", "-m", "pytest", "-q", "tests/test_golden.py", "--golden")
    session.run("git", "diff", "--stat", "tests/golden", external=True)
