"""Training of a model for its number formats: the graph becomes differentiable, its integers give the accuracy."""
