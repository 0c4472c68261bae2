"""Operators under the names people use: one file an operator, which no other file needs to know of."""
