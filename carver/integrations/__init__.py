"""What other tools call back into."""
