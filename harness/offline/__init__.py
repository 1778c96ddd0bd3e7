"""What needs no board: sources, plans, pictures of memory, conversions, pages about formats."""
