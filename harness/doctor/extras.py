"""What tinyhil does with packages that it does not need: one line for each extra whose packages are not all here."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping

from packaging.requirements import Requirement

from tinyhil.harness.doctor.checks import Check

# Extra of pyproject.toml -> what it is for
USES = {
    "report": "`hil report`: pages for a browser",
    "plot": "`--plot` of `hil plan` and `hil search`: pictures",
    "pytest": "`pytest --board uno`: boards in your tests",
    "train": "`hil train`, `hil search --train`, `--fine-tune` and corrections (`--equalize`...)",
    "exporters": "`hil docs exporters`: models from PyTorch, Keras and scikit-learn",
    "pandas": "Python's `to_pandas()`: records as tables",
    "solver": "`hil plan --planner cp-sat`",
    "nsga2": "`hil search --strategy nsga2`",
    "rl": "`hil search --strategy ppo`, `ddpg`",
    "milp": "`hil search --strategy milp`",
    "dask": "`hil sweep --scheduler`: over several computers",
    "jobqueue": "`hil sweep --scheduler` on Slurm, PBS and others",
    "emulators": "emulators that need no compiler here",
}
DEVELOPERS = ("dev", "slow", "mutate", "docs")


def extras(distribution: str) -> list[Check]:
    """All that are here as one line, each other as one, with its line to type."""
    here, found = list[str](), list[Check]()
    for extra, use in USES.items():
        lacking = [f"{one.name}{one.specifier}" for one in _needed(distribution, extra) if not _is_here(one)]
        if lacking:
            what = f"for {use}; not here: {', '.join(lacking)}"
            found.append(Check(f"extra {extra}", "optional", what, f"pip install '{distribution}[{extra}]'"))
        else:
            here.append(extra)
    return [*([Check("extras", "ok", ", ".join(here))] if here else []), *found]


def _needed(distribution: str, extra: str) -> list[Requirement]:
    try:
        declared = [Requirement(text) for text in importlib.metadata.requires(distribution) or ()]
    except importlib.metadata.PackageNotFoundError:
        return []
    alone, with_it = ({"extra": ""}, {"extra": extra})
    return [one for one in declared if one.marker and not _holds(one, alone) and _holds(one, with_it)]


def _holds(requirement: Requirement, environment: Mapping[str, str]) -> bool:
    return requirement.marker is not None and requirement.marker.evaluate(dict(environment))


def _is_here(requirement: Requirement) -> bool:
    try:
        version = importlib.metadata.version(requirement.name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return requirement.specifier.contains(version, prereleases=True)
