"""The one place where the version stands; setup.py reads it without importing the package."""

__version__ = "0.1.0"
