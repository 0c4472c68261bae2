"""The cost models, each with the columns and constants that it reads."""
