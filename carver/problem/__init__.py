"""Problems: index notation, bound to sizes and types."""
