"""What boards and users have written down: boards.yaml and bench files, where files lie, words of failures."""
