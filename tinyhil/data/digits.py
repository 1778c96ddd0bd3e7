"""Digits: 1797 handwritten digits of 8 x 8 pixels, part of the package, so that it runs anywhere with true accuracy.

The test part of "Optical Recognition of Handwritten Digits" (Alpaydin and Kaynak, UCI, CC BY 4.0), as scikit-learn
bundles it (BSD-3-Clause): pixels 0-16. The split keeps 450 digits for testing, stratified by class: scikit-learn's
`train_test_split(test_size=0.25, random_state=0, stratify=y)`, in its order.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tinyhil.data.dataset import Dataset, Loader, hash_arrays
from tinyhil.data.fetch import in_short
from tinyhil.data.origin import UNREADABLE
from tinyhil.errors import DataError

NAME = "digits"
FILE = Path(__file__).with_name("digits.npz")
SHA256 = "a4085695b337df9c8575ae80d5f9c00a59f46d20a9f3fc2cb05ed69f7c61a4f2"
LARGEST_PIXEL = 16
CLASSES = tuple("0123456789")


def load_digits(*, allow_download: bool = True) -> Dataset:
    """`x_train` (1347, 8, 8), `x_test` (450, 8, 8) in 0..1; nothing is ever downloaded.

    DataError if the file is damaged.
    """
    try:
        with np.load(FILE, allow_pickle=False) as archive:
            x, y, test = archive["x"], archive["y"], archive["test"]
    except UNREADABLE as error:
        raise DataError(f"{FILE}: damaged ({in_short(error)}); install tinyhil again") from None
    digest = hash_arrays(x, y, test)
    if digest != SHA256:
        raise DataError(f"{FILE}: its content has changed; install tinyhil again")
    train = np.setdiff1d(np.arange(len(x)), test)
    pixels = x.astype(np.float32) / LARGEST_PIXEL
    return Dataset(NAME, "full", digest, pixels[train], y[train], pixels[test], y[test], CLASSES)


DIGITS = Loader(NAME, load_digits)
