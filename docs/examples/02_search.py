"""Some tensors need 16 bits, most do with 4: which, if the activations have 60 bytes?"""

import tinyhil

found = tinyhil.load("digits_mlp").search(arena=60, formats=("fixed4", "fixed16"), evaluations=12)
for one in found.uniform:
    print(f"{one.format:7} for all tensors: {one.arena_bytes} B, {one.disagreements} of 450 differ from float")
print(f"{found.strategy}: {found.arena_bytes} B, {found.disagreements} differ")
