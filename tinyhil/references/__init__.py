"""What is right: the model in float32, the program in integers, the decisions of both."""
