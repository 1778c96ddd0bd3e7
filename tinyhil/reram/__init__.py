"""A ReRAM accelerator as data and arithmetic: its crossbars, what they compute, what that costs (docs/reram.md)."""
