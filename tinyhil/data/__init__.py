"""Data sets by name. A loader finds its data in the cache, in HIL_DATA or on the network, and says which it found."""

from __future__ import annotations

from tinyhil.data.ad import AD01
from tinyhil.data.cifar import CIFAR10
from tinyhil.data.dataset import Dataset, Loader, Source
from tinyhil.data.digits import DIGITS
from tinyhil.data.dsa import DSA19
from tinyhil.data.fsdd import FSDD
from tinyhil.data.har import HAR6, load_har6
from tinyhil.data.kws import KWS12
from tinyhil.data.letter import LETTER
from tinyhil.data.mnist import MNIST
from tinyhil.data.usps import USPS, USPS2
from tinyhil.errors import DataError

DATASETS: tuple[Loader, ...] = (HAR6, DIGITS, USPS, USPS2, LETTER, MNIST, DSA19, FSDD, KWS12, AD01, CIFAR10)

__all__ = ["DATASETS", "Dataset", "Loader", "Source", "load", "load_har6"]


def load(name: str, *, allow_download: bool = True) -> Dataset:
    """The data set called `name`; DataError if there is none."""
    for loader in DATASETS:
        if loader.name == name:
            return loader.load(allow_download=allow_download)
    names = ", ".join(loader.name for loader in DATASETS)
    raise DataError(f"data set {name!r} does not exist; there are {names}")
