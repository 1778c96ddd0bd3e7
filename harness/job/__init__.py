"""What is asked for: a request, its model of the zoo or of a file, its inputs."""
