"""`hil energy`: what a network would cost on a chip of its own, by a table of prices. A model, nothing is measured."""
