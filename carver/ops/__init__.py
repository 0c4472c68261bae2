"""Operators under their usual names: a file for each or for a few alike, which no other file needs to know.

`operator` has what they share. `graph` is of several statements in turn, `elsewise` of what other problems would gain.
"""
