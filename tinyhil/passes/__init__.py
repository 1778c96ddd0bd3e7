"""Passes that make a program one core's, and after planning one plan's: Program -> Program."""
