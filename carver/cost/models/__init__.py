"""The cost models. What the columns and constants that they read mean is in templates/columns and constants.toml."""
