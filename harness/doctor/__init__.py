"""What is installed, too old or missing, and the line that fixes it."""
