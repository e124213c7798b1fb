"""Norms and losses of rows with their gradients. `python norms.py` writes the PTX beside itself."""

from kernels import write  # before Triton, which it sets up

import triton
import triton.language as tl


@triton.jit
def rms(x, residual, weight, y, width, epsilon, BLOCK: tl.constexpr):
    """Of x + residual, which is kept."""
    at = tl.program_id(0).to(tl.int64) * width
    columns = tl.arange(0, BLOCK)
    inside = columns < width
    row = tl.load(x + at + columns, mask=inside, other=0.0) + tl.load(residual + at + columns, mask=inside, other=0.0)
    tl.store(residual + at + columns, row, mask=inside)
    wide = row.to(tl.float32)
    scale = tl.rsqrt(tl.sum(wide * wide, axis=0) / width + epsilon)
    w = tl.load(weight + columns, mask=inside, other=0.0).to(tl.float32)
    tl.store(y + at + columns, (wide * scale * w).to(tl.bfloat16), mask=inside)


@triton.jit
def online(x, y, width, BLOCK: tl.constexpr):
    """A softmax of long rows, a block of columns at a time: Milakov and Gimelshein, 2018."""
    at = tl.program_id(0) * width
    most = tl.full((BLOCK,), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, width, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        row = tl.load(x + at + columns, mask=columns < width, other=float("-inf"))
        larger = tl.maximum(most, row)
        total = tl.where(larger == float("-inf"), 0.0, total * tl.exp(most - larger) + tl.exp(row - larger))
        most = larger
    largest = tl.max(most, 0)
    total = tl.sum(total * tl.exp(most - largest), 0)
    for start in range(0, width, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        row = tl.load(x + at + columns, mask=columns < width)
        tl.store(y + at + columns, tl.exp(row - largest) / total, mask=columns < width)


@triton.jit
def cross_entropy(logits, labels, losses, width, BLOCK: tl.constexpr):
    """The loss of each row, and its gradient in place of the logits."""
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    inside = columns < width
    label = tl.load(labels + row)
    x = tl.load(logits + row * width + columns, mask=inside, other=float("-inf")).to(tl.float32)
    most = tl.max(x, 0)
    e = tl.exp(x - most)
    total = tl.sum(e, 0)
    tl.store(losses + row, tl.log(total) + most - tl.sum(tl.where(columns == label, x, 0.0), 0))
    tl.store(logits + row * width + columns, (e / total - tl.where(columns == label, 1.0, 0.0)).to(tl.float16), mask=inside)


@triton.jit
def add_moments(mean_a, squares_a, count_a, mean_b, squares_b, count_b):
    """Those of two parts together: Chan, Golub and LeVeque, 1979."""
    difference = mean_b - mean_a
    count = count_a + count_b
    part = tl.where(count == 0, 0.0, count_b / count)
    return mean_a + difference * part, squares_a + squares_b + difference * difference * count_a * part, count


@triton.jit
def moments(x, y, width, BLOCK: tl.constexpr):
    """Mean and variance of rows. Lanes store what they have summed up in other orders to one place."""
    columns = tl.arange(0, BLOCK)
    inside = columns < width
    row = tl.load(x + tl.program_id(0) * width + columns, mask=inside, other=0.0)
    mean, squares, count = tl.reduce((row, tl.zeros_like(row), tl.where(inside, 1.0, 0.0)), 0, add_moments)
    tl.store(y + 2 * tl.program_id(0), mean)
    tl.store(y + 2 * tl.program_id(0) + 1, squares / count)


@triton.jit
def weight_gradient(x, dy, dw, lock, rows, width, BLOCK: tl.constexpr):
    """The sum over rows of x dy: each program adds its part under a lock."""
    columns = tl.arange(0, BLOCK)
    inside = columns < width
    part = tl.zeros((BLOCK,), tl.float32)
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        part += tl.load(x + row * width + columns, mask=inside, other=0.0) * tl.load(dy + row * width + columns, mask=inside, other=0.0)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(dw + columns, tl.load(dw + columns, mask=inside) + part, mask=inside)
    # Every thread has stored before the lock opens.
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


if __name__ == "__main__":
    brain = {"x": "*bf16", "residual": "*bf16", "weight": "*bf16", "y": "*bf16", "width": "i32", "epsilon": "fp32"}
    write(rms, "rms", brain, {"BLOCK": 512}, 90, num_warps=4)
    write(online, "online", {"x": "*fp32", "y": "*fp32", "width": "i32"}, {"BLOCK": 256}, 80, num_warps=4)
    loss = {"logits": "*fp16", "labels": "*i64", "losses": "*fp32", "width": "i32"}
    write(cross_entropy, "cross_entropy", loss, {"BLOCK": 512}, 90, num_warps=8)
    write(moments, "moments", {"x": "*fp32", "y": "*fp32", "width": "i32"}, {"BLOCK": 512}, 80, num_warps=4)
    gradient = {"x": "*fp32", "dy": "*fp32", "dw": "*fp32", "lock": "*i32", "rows": "i32", "width": "i32"}
    write(weight_gradient, "weight_gradient", gradient, {"BLOCK": 256}, 90, num_warps=4)
