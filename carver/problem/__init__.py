"""What is computed: index notation, and a problem of it with sizes and types."""
