"""Problems: a line of index notation (`notation`), bound to sizes and types (`problem`)."""
