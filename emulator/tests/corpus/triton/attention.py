"""Attention with an online softmax: Dao, "FlashAttention-2", 2023. `python attention.py` writes the PTX beside itself."""

from kernels import write  # before Triton, which it sets up

import triton
import triton.language as tl


@triton.jit
def attention(q, k, v, o, queries, keys, scale, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr):
    head = tl.program_id(1)
    q += head * queries * D
    o += head * queries * D
    k += head * keys * D
    v += head * keys * D
    first = tl.program_id(0) * BM
    rows = first + tl.arange(0, BM)
    columns = tl.arange(0, D)
    query = tl.load(q + rows[:, None] * D + columns[None, :], mask=(rows < queries)[:, None], other=0.0)
    most = tl.full((BM,), float("-inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    result = tl.zeros((BM, D), tl.float32)
    # The last query sees the last key.
    shift = keys - queries
    end = tl.minimum(keys, first + BM + shift) if CAUSAL else keys
    for start in range(0, end, BN):
        at = start + tl.arange(0, BN)
        inside = at < keys
        key = tl.load(k + at[None, :] * D + columns[:, None], mask=inside[None, :], other=0.0)
        score = tl.dot(query, key) * (scale * 1.4426950408889634)
        seen = inside[None, :]
        if CAUSAL:
            seen = seen & (at[None, :] <= (rows + shift)[:, None])
        score = tl.where(seen, score, float("-inf"))
        larger = tl.maximum(most, tl.max(score, 1))
        older = tl.exp2(most - larger)
        weight = tl.exp2(score - larger[:, None])
        total = total * older + tl.sum(weight, 1)
        value = tl.load(v + at[:, None] * D + columns[None, :], mask=inside[:, None], other=0.0)
        result = tl.dot(weight.to(tl.float16), value, result * older[:, None])
        most = larger
    tl.store(o + rows[:, None] * D + columns[None, :], (result / total[:, None]).to(tl.float16), mask=(rows < queries)[:, None])


if __name__ == "__main__":
    pointers = {name: "*fp16" for name in "qkvo"}
    signature = {**pointers, "queries": "i32", "keys": "i32", "scale": "fp32"}
    # Copies of 16 bytes need it.
    attributes = {(i,): [["tt.divisibility", 16]] for i in range(4)}
    for arch in [80, 90]:
        for causal in [False, True]:
            constants = {"BM": 64, "BN": 32, "D": 32, "CAUSAL": causal}
            name = "causal" if causal else "attention"
            write(attention, name, signature, constants, arch, attributes, num_warps=4, num_stages=3)
