"""Packaging. The settings of tools are in pyproject.toml.

Queries are more than twice as fast with an extension in C. Where it cannot be built, or CARVER_PURE is set, the package
is made without it, and gives the same answers.
"""

import os
from pathlib import Path
from zlib import crc32

from setuptools import Extension, find_packages, setup
from setuptools.command.build_py import build_py

HERE = Path(__file__).parent
VERSION = HERE.joinpath("carver", "_version.py").read_text(encoding="utf-8").split('"')[-2]

STARTUP = 'import os; os.environ.get("CARVER_TRITON") and __import__("carver._startup")\n'


class BuildPy(build_py):
    """Adds the line that Python runs at each start, so that CARVER_TRITON works for programs that never name carver."""

    def run(self) -> None:
        super().run()
        # of an editable install, only what lies where `install` would put it gets into the wheel
        folder = self.get_finalized_command("install").install_purelib if self.editable_mode else self.build_lib
        Path(folder, "gpu_carver.pth").write_text(STARTUP, encoding="utf-8")


extensions = []
if not os.environ.get("CARVER_PURE"):
    import numpy as np

    source = "carver/kernels/_loops.c"
    macros = [("SOURCE", f"{crc32(HERE.joinpath(source).read_bytes())}u")]
    names = {"include_dirs": [np.get_include()], "define_macros": macros}
    extensions = [Extension("carver.kernels._loops", [source], **names, optional=True)]

setup(
    ext_modules=extensions,
    cmdclass={"build_py": BuildPy},
    name="gpu-carver",
    version=VERSION,
    description="Tile configurations for GPU and CPU kernels, ranked and explained by a cost model",
    long_description=HERE.joinpath("README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    license_files=["LICENSE"],
    python_requires=">=3.11",
    packages=[*find_packages(include=["carver", "carver.*"]), "carver._arch", "carver._templates"],
    # arch/ and templates/ are folders of data. A wheel carries them inside the package under
    # private names; carver/base/folders.py finds them there and in a checkout.
    package_dir={"carver._arch": "arch", "carver._templates": "templates"},
    package_data={
        "carver": ["py.typed", "ranking/assets/*", "skill/*.md"],
        "carver._arch": ["**/*.toml"],
        "carver._templates": ["**/*.toml", "**/*.cu", "**/*.cuh", "**/*.c", "**/*.h"],
    },
    include_package_data=False,  # only what is named here: no caches or editor files of a working tree
    install_requires=["numpy>=1.26", "scipy>=1.11", "networkx>=3.2", "rich>=13.7", "click>=8.1", "platformdirs>=4.0",
                      "ml_dtypes>=0.4"],
    extras_require={
        "gpu": ["pycuda>=2024.1", "torch>=2.2"],
        "plot": ["matplotlib>=3.8"],
        "frame": ["pandas>=2.1"],
        "notebook": [
            "ipykernel>=6.29", "ipywidgets>=8.1", "jupyterlab>=4", "kernel-tuner>=1.5", "matplotlib>=3.8",
            "nbclient>=0.10", "nbformat>=5.10", "pandas>=2.1", "triton>=3.6; platform_system == 'Linux'",
        ],
        "tune": ["dask[distributed]>=2024.1"],  # scale-out over hosts; a tuner on one machine needs nothing more
        # what tests/test_export_packages.py was run with, beside Triton of `dev`; none of them needs a GPU there, and
        # PyTorch that is built without CUDA asks for no Triton of its own
        "export-test": [
            "helion==1.5.1", "kernel-tuner==1.5.0", "optuna==5.0.0", "packaging", "torch==2.13.0",
        ],
        # what tests/test_languages.py was run with: compilers of other languages, none of which needs a GPU or a driver
        "languages": [
            "cuda-tile==1.7.0", "numba-cuda==0.30.4", "nvidia-cuda-nvcc==13.5.*", "nvidia-cuda-nvrtc==13.5.*",
            "nvidia-cuda-tileiras==13.5.*", "nvidia-cutlass-dsl==4.8.1", "nvidia-nvjitlink==13.5.*",
            "nvidia-nvvm==13.5.*", "tilelang==0.1.15", "torch==2.13.0", "warp-lang==1.19.0",
        ],
        "docs": ["mkdocs>=1.6,<2", "mkdocs-material>=9.5", "mkdocstrings[python]>=0.27"],
        "dev": [
            "build", "dask[distributed]>=2024.1", "hypothesis", "import-linter>=2.1", "matplotlib>=3.8", "mypy>=1.11",
            "nox>=2024.4", "pandas>=2.1", "pre-commit>=3.7", "pytest>=8", "pytest-xdist>=3.5", "ruff>=0.6",
            # the one whose instructions the tests count, and whose answers are recorded
            "triton==3.6.0; platform_system == 'Linux'",
        ],
    },
    entry_points={"console_scripts": ["carver = carver.cli.main:main"]},
    classifiers=[
        "Environment :: GPU",
        "Intended Audience :: Developers",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Programming Language :: Python :: 3.14",
        "Typing :: Typed",
    ],
    zip_safe=False,
)
