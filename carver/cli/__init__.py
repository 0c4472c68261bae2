"""The command line: `main` knows where each command is, `options` makes commands of functions and of what
templates/options.toml says of their parameters, and the other files have the functions."""
