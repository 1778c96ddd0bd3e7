"""Compiled emulators. `bin/NAME`: programs; `sources.json`: a digest of each one's sources, by its folder."""
