"""What is done with a board: a run, a profile, a comparison of tensors, times over resets, golden records."""
