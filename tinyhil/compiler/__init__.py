"""Graph to Program: calibrated ranges, a format for every tensor, operators lowered into kernels."""
