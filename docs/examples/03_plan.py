"""Four buffers in as little memory as their live ranges permit, and the proof that it is the least."""

from tinyhil.memplan import Buffer, Problem, describe, plan

buffers = (Buffer("x", 490, 0, 2), Buffer("conv1", 8000, 1, 3), Buffer("conv2", 8000, 2, 4), Buffer("y", 12, 3, 5))
best = plan(Problem(buffers))
print(describe(best))
for buffer in buffers:
    offset = best.offsets[buffer.name]
    print(f"{buffer.name:6} {offset:6} .. {offset + buffer.size_bytes}")
