"""Kernels as templates/ declares them (`declaration`), the expressions in a declaration (`expr`), and the tools that
kernels are written for (`backends`).

A declaration becomes columns, a row for each candidate: of the user's configurations in `space`, of all that its values
span in `enumeration`. `trace` runs a formula once with symbols, so that only numbers are left to do for each problem.
"""
