"""What was measured: the record, its flat view, comparison and display."""
