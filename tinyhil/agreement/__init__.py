"""Whether a program computes what the float model says, within the resolution of its formats (docs/numerics.md)."""

from tinyhil.agreement.float_gate import Agreement, Finding, agreement

__all__ = ["Agreement", "Finding", "agreement"]
