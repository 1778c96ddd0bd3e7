"""Firmware and inference engines of others, measured as ours are."""
