"""Whether a program computes what the float model says, within the resolution of its formats (docs/numerics.md)."""

from tinyhil.agreement.finding import Finding
from tinyhil.agreement.float_gate import Agreement, agreement
from tinyhil.agreement.whole_run import Lowered, WholeRun, whole_run

__all__ = ["Agreement", "Finding", "Lowered", "WholeRun", "agreement", "whole_run"]
