"""Scans, sorts and reductions. `python scans.py` writes the PTX beside itself."""

from kernels import write  # before Triton, which it sets up

import triton
import triton.language as tl


@triton.jit
def combine(a, b, c, d):
    """x -> a x + b, then x -> c x + d."""
    return a * c, b * c + d


@triton.jit
def recurrence(a, b, y, width, BLOCK: tl.constexpr):
    """y[i] = a[i] y[i - 1] + b[i] along each row, as a scan of functions."""
    columns = tl.arange(0, BLOCK)
    at = tl.program_id(0) * width + columns
    inside = columns < width
    x = tl.load(a + at, mask=inside, other=1.0)
    z = tl.load(b + at, mask=inside, other=0.0)
    _, result = tl.associative_scan((x, z), 0, combine)
    tl.store(y + at, result, mask=inside)


@triton.jit
def add(a, b):
    return a + b


@triton.jit
def chained(x, y, sums, flags, n, BLOCK: tl.constexpr):
    """A scan of the grid: each CTA waits for the sum of those before it, and publishes its own."""
    tile = tl.program_id(0)
    at = tile * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + at, mask=at < n, other=0)
    scanned = tl.associative_scan(values, 0, add)
    before = 0
    if tile > 0:
        while tl.atomic_add(flags + tile - 1, 0, sem="acquire") == 0:
            pass
        before = tl.load(sums + tile - 1)
    tl.store(sums + tile, before + tl.sum(values))
    tl.atomic_xchg(flags + tile, 1, sem="release")
    tl.store(y + at, scanned + before, mask=at < n)


@triton.jit
def ordered(x, y, ROWS: tl.constexpr, WIDTH: tl.constexpr):
    """Rows in falling order."""
    at = tl.arange(0, ROWS)[:, None] * WIDTH + tl.arange(0, WIDTH)[None, :]
    tl.store(y + at, tl.sort(tl.load(x + at), dim=1, descending=True))


@triton.jit
def largest(x, y, ROWS: tl.constexpr, WIDTH: tl.constexpr, K: tl.constexpr):
    """The largest of rows, in their order."""
    at = tl.arange(0, ROWS)[:, None] * WIDTH + tl.arange(0, WIDTH)[None, :]
    most = tl.topk(tl.load(x + at), K, dim=1)
    tl.store(y + tl.arange(0, ROWS)[:, None] * K + tl.arange(0, K)[None, :], most)


@triton.jit
def reductions(x, places, sums, width, BLOCK: tl.constexpr):
    """The place of the first largest and of the first least of each row; the sum of its bits by exclusive or."""
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    inside = columns < width
    values = tl.load(x + row * width + columns, mask=inside, other=0.0)
    tl.store(places + 2 * row, tl.argmax(tl.where(inside, values, float("-inf")), 0))
    tl.store(places + 2 * row + 1, tl.argmin(tl.where(inside, values, float("inf")), 0))
    tl.store(sums + row, tl.xor_sum(values.to(tl.int32, bitcast=True), 0))


if __name__ == "__main__":
    row = {"a": "*fp32", "b": "*fp32", "y": "*fp32", "width": "i32"}
    write(recurrence, "recurrence", row, {"BLOCK": 512}, 90, num_warps=4)
    chain = {"x": "*i32", "y": "*i32", "sums": "*i32", "flags": "*i32", "n": "i32"}
    write(chained, "chained", chain, {"BLOCK": 256}, 90, num_warps=2)
    write(ordered, "ordered", {"x": "*fp32", "y": "*fp32"}, {"ROWS": 2, "WIDTH": 128}, 80, num_warps=2)
    write(largest, "largest", {"x": "*fp16", "y": "*fp16"}, {"ROWS": 2, "WIDTH": 128, "K": 8}, 80, num_warps=2)
    rows = {"x": "*fp32", "places": "*i32", "sums": "*i32", "width": "i32"}
    write(reductions, "reductions", rows, {"BLOCK": 512}, 90, num_warps=4)
