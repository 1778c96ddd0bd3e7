"""Crossbars of resistive memory: what they are made of, and what they compute."""
