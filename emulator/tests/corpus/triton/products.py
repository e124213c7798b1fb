"""Products of matrices by TMA, in parts that are added, and of bytes. `python products.py` writes the PTX beside itself."""

from kernels import write  # before Triton, which it sets up

import triton
import triton.language as tl


@triton.jit
def described(a, b, c, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Of tensors that the host describes: copied by TMA, multiplied by wgmma."""
    row = tl.program_id(0) * BM
    column = tl.program_id(1) * BN
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, k, BK):
        total = tl.dot(a.load([row, start]), b.load([start, column]), total)
    c.store([row, column], total.to(tl.float16))


@triton.jit
def persistent(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Each CTA takes tile after tile, of tensors that it describes itself."""
    x = tl.make_tensor_descriptor(a, shape=[m, k], strides=[k, 1], block_shape=[BM, BK])
    y = tl.make_tensor_descriptor(b, shape=[n, k], strides=[k, 1], block_shape=[BN, BK])
    z = tl.make_tensor_descriptor(c, shape=[m, n], strides=[n, 1], block_shape=[BM, BN])
    across = tl.cdiv(n, BN)
    for tile in range(tl.program_id(0), tl.cdiv(m, BM) * across, tl.num_programs(0)):
        row = tile // across * BM
        column = tile % across * BN
        total = tl.zeros((BM, BN), dtype=tl.float32)
        for start in range(0, k, BK):
            total = tl.dot(x.load([row, start]), y.load([column, start]).T, total)
        z.store([row, column], total.to(tl.float16))


@triton.jit
def in_parts(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Each CTA has a part of the sums, which are added by atomic operations."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(tl.program_id(2) * BK, k, BK * tl.num_programs(2)):
        depth = start + tl.arange(0, BK)
        inside = depth < k
        x = tl.load(a + rows[:, None] * k + depth[None, :], mask=(rows < m)[:, None] & inside[None, :], other=0.0)
        y = tl.load(b + depth[:, None] * n + columns[None, :], mask=inside[:, None] & (columns < n)[None, :], other=0.0)
        total = tl.dot(x, y, total)
    tl.atomic_add(c + rows[:, None] * n + columns[None, :], total, mask=(rows < m)[:, None] & (columns < n)[None, :])


@triton.jit
def of_bytes(a, b, c, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Of signed bytes; b by columns."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), dtype=tl.int32)
    for start in range(0, k, BK):
        depth = start + tl.arange(0, BK)
        x = tl.load(a + rows[:, None] * k + depth[None, :])
        y = tl.load(b + columns[None, :] * k + depth[:, None])
        total += tl.dot(x, y)
    tl.store(c + rows[:, None] * n + columns[None, :], total)


if __name__ == "__main__":
    tiles = {"BM": 64, "BN": 64, "BK": 32}
    boxes = {"a": "tensordesc<fp16[64, 32]>", "b": "tensordesc<fp16[32, 64]>", "c": "tensordesc<fp16[64, 64]>", "k": "i32"}
    write(described, "described", boxes, tiles, 90, num_warps=4, num_stages=3)
    sizes = {"m": "i32", "n": "i32", "k": "i32"}
    halves = {"a": "*fp16", "b": "*fp16"}
    attributes = {(i,): [["tt.divisibility", 16]] for i in range(6)}
    write(persistent, "persistent", {**halves, "c": "*fp16", **sizes}, tiles, 90, attributes, num_warps=4, num_stages=3)
    for arch in [80, 90]:
        write(in_parts, "in_parts", {**halves, "c": "*fp32", **sizes}, {**tiles, "BN": 32}, arch, attributes, num_warps=4, num_stages=3)
    words = {"a": "*i8", "b": "*i8", "c": "*i32", "n": "i32", "k": "i32"}
    attributes = {(i,): [["tt.divisibility", 16]] for i in range(5)}
    write(of_bytes, "of_bytes", words, {**tiles, "BK": 64}, 80, attributes, num_warps=4, num_stages=3)
