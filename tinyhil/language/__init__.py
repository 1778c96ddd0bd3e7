"""What everything speaks: graphs, programs of kernels, assignments of formats, the arithmetic of kernels."""
