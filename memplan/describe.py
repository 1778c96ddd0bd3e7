"""A plan in words and as the record `hil plan --json` prints."""

from __future__ import annotations

from tinyhil.memplan.problem import Plan

MOST_NAMED = 14  # buffers


def describe(plan: Plan) -> str:
    """One or more lines: peak, bound, how far apart, and what proves it."""
    lines = [f"peak {plan.peak_bytes} B, lower bound {plan.lower_bound_bytes} B, planner {plan.planner}"]
    if plan.proven:
        lines.append(f"optimal placement: {_reason(plan)}")
    else:
        percent = 100 * plan.gap_bytes / max(1, plan.lower_bound_bytes)
        lines.append(f"not proven optimal: gap {plan.gap_bytes} B ({percent:.1f} %); bound: {_reason(plan)}")
    if len(plan.peaks) > 1:
        lines.append("regions: " + ", ".join(f"{name} {peak} B" for name, peak in plan.peaks.items()))
    return "\n".join(lines)


def _reason(plan: Plan) -> str:
    if plan.how == "search":
        return plan.statement
    if plan.how == "set":
        many = f"the {len(plan.witnesses)} buffers live at instant {plan.witness}"
        names = ", ".join(plan.witnesses) if len(plan.witnesses) <= MOST_NAMED else many
        return f"{names} can not lie within {plan.lower_bound_bytes - 1} B, in no order"
    if plan.how == "fixed":
        return f"a fixed offset reaches {plan.lower_bound_bytes} B"
    if plan.witness is None:
        return "there is nothing to plan"
    return f"at instant {plan.witness} buffers of {plan.lower_bound_bytes} B are live at once"


def as_record(plan: Plan, seconds: float, capacity_bytes: int | None = None) -> dict[str, object]:
    """What `hil plan --json` prints."""
    return {
        "peak_bytes": plan.peak_bytes,
        "lower_bound_bytes": plan.lower_bound_bytes,
        "proven": plan.proven,
        "how": plan.how,
        "witness": plan.witness,
        "witnesses": list(plan.witnesses),
        "statement": plan.statement,
        "planner": plan.planner,
        "seconds": round(seconds, 6),
        "fits": capacity_bytes is None or plan.peak_bytes <= capacity_bytes,
        "offsets": dict(plan.offsets),
    }
