"""What a compiler made of a kernel: compiled offline for any GPU, read, evaluated over its grid, and priced."""
