"""Which width each tensor gets: strategies that ask, an evaluator that answers without compiling anything."""
