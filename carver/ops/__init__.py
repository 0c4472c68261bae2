"""Operators under their usual names: one file per operator, which no other file needs to know."""
