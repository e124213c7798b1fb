"""Atomic operations on floats, and copies that add. `python atomics.py` writes the PTX beside itself."""

from kernels import write  # before Triton, which it sets up

import triton
import triton.language as tl


@triton.jit
def floats(x, y, n, BLOCK: tl.constexpr):
    """Sums, maxima and minima of 16 classes each."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n, other=0.0)
    place = y + at * 7 % 16
    tl.atomic_add(place, value, mask=at < n, sem="relaxed")
    tl.atomic_max(place + 16, value, mask=at < n)
    tl.atomic_min(place + 32, value, mask=at < n)


@triton.jit
def halves(x, y, n, BLOCK: tl.constexpr):
    """Sums of 32 classes."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(y + at % 32, tl.load(x + at, mask=at < n, other=0.0), mask=at < n)


@triton.jit
def boxes(x, y, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Adds a box to each part of a tensor, by TMA."""
    at = tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    y.atomic_add([tl.program_id(0) * ROWS, 0], tl.load(x + at))


if __name__ == "__main__":
    write(floats, "floats", {"x": "*fp32", "y": "*fp32", "n": "i32"}, {"BLOCK": 128}, 90, num_warps=4)
    for name in ["fp16", "bf16"]:
        write(halves, f"{name}_sums", {"x": f"*{name}", "y": f"*{name}", "n": "i32"}, {"BLOCK": 128}, 90, num_warps=4)
    signature = {"x": "*fp32", "y": "tensordesc<fp32[64, 32]>"}
    write(boxes, "boxes", signature, {"ROWS": 64, "COLUMNS": 32}, 90, num_warps=4)
