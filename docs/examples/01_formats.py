"""Every family of formats on 100 digits: does it fit an Uno, how many decisions differ from float? Nothing is built."""

import tinyhil
from tinyhil.data import load

FAMILIES = ("fixed8", "posit8es2", "fp8e4m3", "bfloat16", "kmeans16", "int8", "sign")

digits = load("digits")
for row in tinyhil.load("digits_mlp").fit("uno", digits.x_test[:100], digits.y_test[:100], formats=FAMILIES):
    print(f"{row.format:10} arena {row.arena_bytes:3} B, {row.agreement.disagreements:2} differ, fits: {row.fits}")
