"""One driver per kind of link: `attached` (a serial port), `simulated` (an emulator), `host` (this computer)."""
