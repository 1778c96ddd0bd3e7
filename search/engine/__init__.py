"""The host engine: whole programs over many samples at once, from tables, without compiling any of them."""
