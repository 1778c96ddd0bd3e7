"""The same network on crossbars of resistive memory: exact with converters that are wide enough."""

import tinyhil

record = tinyhil.load("digits_mlp").run("reram", formats="fixed8", samples=20)
chip = record.accelerator
print(f"bit-exact {record.bit_exact}: {chip.crossbars} crossbars")
print(f"{1000 * chip.energy_uj:.1f} nJ, {chip.latency_us:.1f} us")
