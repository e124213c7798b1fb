"""Kernels of several kinds, and how all files here make PTX of theirs: `python kernels.py` writes it beside itself."""

import os
import pathlib

# Which lines it was made of is not kept: it names the files of the machine.
os.environ["TRITON_DISABLE_LINE_INFO"] = "1"

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def matmul(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    depth = tl.arange(0, BK)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, k, BK):
        inside = start + depth < k
        x = tl.load(a + rows[:, None] * k + (start + depth)[None, :], mask=(rows < m)[:, None] & inside[None, :], other=0.0)
        y = tl.load(b + (start + depth)[:, None] * n + columns[None, :], mask=inside[:, None] & (columns < n)[None, :], other=0.0)
        total = tl.dot(x, y, total)
    tl.store(c + rows[:, None] * n + columns[None, :], total.to(tl.float16), mask=(rows < m)[:, None] & (columns < n)[None, :])


@triton.jit
def softmax(x, y, width, BLOCK: tl.constexpr):
    at = tl.program_id(0) * width
    columns = tl.arange(0, BLOCK)
    row = tl.load(x + at + columns, mask=columns < width, other=float("-inf"))
    row = tl.exp(row - tl.max(row, axis=0))
    tl.store(y + at + columns, row / tl.sum(row, axis=0), mask=columns < width)


@triton.jit
def layernorm(x, weight, bias, y, width, eps, BLOCK: tl.constexpr):
    at = tl.program_id(0) * width
    columns = tl.arange(0, BLOCK)
    inside = columns < width
    row = tl.load(x + at + columns, mask=inside, other=0.0).to(tl.float32)
    mean = tl.sum(row, axis=0) / width
    centred = tl.where(inside, row - mean, 0.0)
    scale = 1 / tl.sqrt(tl.sum(centred * centred, axis=0) / width + eps)
    w = tl.load(weight + columns, mask=inside, other=0.0)
    b = tl.load(bias + columns, mask=inside, other=0.0)
    tl.store(y + at + columns, (centred * scale * w + b).to(tl.bfloat16), mask=inside)


@triton.jit
def count(x, bins, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n, other=0)
    tl.atomic_add(bins + value % 16, 1, mask=at < n)
    scanned = tl.cumsum(value, axis=0)
    tl.atomic_max(bins + 16, tl.max(scanned, axis=0))


def write(kernel, name, signature, constants, arch, attributes=None, **options):
    signature = {**signature, **{constant: "constexpr" for constant in constants}}
    source = ASTSource(kernel, signature, constexprs=constants, attrs=attributes)
    compiled = triton.compile(source, target=GPUTarget("cuda", arch, 32), options={"enable_fp_fusion": True, **options})
    folder = pathlib.Path(__file__).parent
    (folder / f"{name}.{arch}.ptx").write_text(compiled.asm["ptx"].rstrip("\0"))
    print(f"{name}.{arch}: {32 * options['num_warps']} threads, {compiled.metadata.shared} bytes of shared memory, "
          f"{compiled.metadata.global_scratch_size} bytes of scratch memory for a CTA")


if __name__ == "__main__":
    for arch in [80, 90]:
        half = {"a": "*fp16", "b": "*fp16", "c": "*fp16", "m": "i32", "n": "i32", "k": "i32"}
        write(matmul, "matmul", half, {"BM": 64, "BN": 64, "BK": 32}, arch, num_warps=4, num_stages=3)
        rows = {"x": "*fp32", "y": "*fp32", "width": "i32"}
        write(softmax, "softmax", rows, {"BLOCK": 512}, arch, num_warps=4)
        norm = {"x": "*bf16", "weight": "*fp32", "bias": "*fp32", "y": "*bf16", "width": "i32", "eps": "fp32"}
        write(layernorm, "layernorm", norm, {"BLOCK": 512}, arch, num_warps=4)
        write(count, "count", {"x": "*i32", "bins": "*i32", "n": "i32"}, {"BLOCK": 256}, arch, num_warps=4)
