"""`hil train`: a model trained for its number formats."""
