"""Products of matrices of other types: f32 as tf32, bf16 by two warpgroups, fp8. `python formats.py` writes the PTX beside itself."""

from kernels import write  # before Triton, which it sets up

import triton
import triton.language as tl


@triton.jit
def product(a, b, c, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Of one tile; b by columns."""
    rows = tl.arange(0, BM)
    columns = tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, k, BK):
        depth = start + tl.arange(0, BK)
        x = tl.load(a + rows[:, None] * k + depth[None, :])
        y = tl.load(b + columns[None, :] * k + depth[:, None])
        total = tl.dot(x, y, total)
    tl.store(c + rows[:, None] * BN + columns[None, :], total)


if __name__ == "__main__":
    attributes = {(i,): [["tt.divisibility", 16]] for i in range(4)}
    for name, element, arch, tile, warps in [
        ("tf32", "fp32", 80, (64, 32, 32), 4),
        ("tf32", "fp32", 90, (64, 32, 32), 4),
        ("bf16", "bf16", 90, (128, 64, 32), 8),
        ("e4m3", "fp8e4nv", 90, (64, 32, 64), 4),
        ("e5m2", "fp8e5", 80, (64, 32, 64), 4),
    ]:
        signature = {"a": f"*{element}", "b": f"*{element}", "c": "*fp32", "k": "i32"}
        write(product, name, signature, dict(zip(["BM", "BN", "BK"], tile)), arch, attributes, num_warps=warps, num_stages=3)
