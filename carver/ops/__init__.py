"""Operators under the names people use."""
