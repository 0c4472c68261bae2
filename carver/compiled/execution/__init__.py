"""What the threads of a launch do: their passes through each basic block of the machine code, and every address."""
