"""Packages that some strategies import lazily, and what is said where one is not installed."""

from __future__ import annotations

from importlib.util import find_spec

from tinyhil.errors import ConfigError

# Of a strategy: the package, its module, the extra that installs it
NEEDS = {
    "nsga2": ("Optuna", "optuna", "nsga2"),
    "ppo": ("PyTorch", "torch", "rl"),
    "ddpg": ("PyTorch", "torch", "rl"),
    "milp": ("SciPy", "scipy", "milp"),
}


def missing(*strategies: str) -> ConfigError:
    """The error of strategies that share a package, which is not here."""
    package, _, extra = NEEDS[strategies[0]]
    needs = "needs" if len(strategies) == 1 else "need"
    return ConfigError(f"{' and '.join(strategies)} {needs} {package}: pip install 'tinyhil[{extra}]'")


def require_package(strategy: str) -> None:
    """ConfigError, before anything is searched, where the package of a strategy is not installed."""
    if strategy in NEEDS and find_spec(NEEDS[strategy][1]) is None:
        raise missing(strategy)
