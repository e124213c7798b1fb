"""Attention of PyTorch and of flash-attention 3, measured when the benchmark that runs this asks for it.

Questions come in lines, and each is answered by one:

    case TYPE BATCH HEADS KV_HEADS QUERIES KEYS D DV CAUSAL SETS   the names of those that can compute it
    packed HEADS KV_HEADS D CAUSAL LENGTHS                         the same for sequences one after the other, of bf16
    biased BATCH HEADS LENGTH D and the mask's four sizes          the same with a mask that is added to scores, of bf16
    sparse BATCH HEADS KV_HEADS LENGTH D BLOCK CAUSAL HUNDREDTHS   the same with masks of random blocks, one for each density, of bf16
    turn NAME                                                      milliseconds of a launch on the device
    host NAME                                                      microseconds of a call on the host

The first line says what there is. `error` begins the answer to what cannot be.
"""

import contextlib
import gc
import importlib
import math
import os
import statistics
import sys
import time

ANSWERS = os.fdopen(os.dup(1), "w")
# What libraries print is no answer.
os.dup2(2, 1)


def answer(line):
    print(line, file=ANSWERS, flush=True)


def first_line(error):
    return (str(error).splitlines() or [type(error).__name__])[0]


try:
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention

    torch.cuda.init()
except Exception as error:
    answer(f"error {first_line(error)}")
    sys.exit()


def flash_attention_3():
    for name in "flash_attn_interface", "fa3_fwd_interface":
        with contextlib.suppress(ImportError):
            return importlib.import_module(name)
    return None


FA3 = flash_attention_3()
# Why peers did not compute cases; each reason is said once.
REASONS = set()


class Peer:
    """A function on every set of inputs, as a graph that takes 2 ms at least."""

    def __init__(self, function, context, sets):
        self.function, self.context, self.sets = function, context, sets
        with context():
            function(*sets[0])
        self.record(1)
        self.turn()
        self.record(min(max(math.ceil(2 / (self.turn() * len(sets))), 1), 1000))

    def record(self, cycles):
        self.graph, self.launches = torch.cuda.CUDAGraph(), cycles * len(self.sets)
        with self.context(), torch.cuda.graph(self.graph):
            for _ in range(cycles):
                # Kept, so that each set has an output of its own.
                self.outputs = [self.function(*inputs) for inputs in self.sets]

    def turn(self):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        self.graph.replay()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) / self.launches

    def host(self):
        times, calls = [], 50
        with self.context():
            for _ in range(21):
                torch.cuda.synchronize()
                start = time.perf_counter()
                for _ in range(calls):
                    self.function(*self.sets[0])
                times.append((time.perf_counter() - start) * 1e6 / calls)
        return statistics.median(times)


def prepare(dtype, *sizes):
    batch, heads, kv_heads, queries, keys, d, dv, causal, sets = map(int, sizes)
    dtype = {"f16": torch.float16, "bf16": torch.bfloat16}[dtype]
    causal = bool(causal)

    def random(*shape):
        return torch.randn(shape, device="cuda", dtype=dtype)

    def sdpa(q, k, v):
        return scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=heads != kv_heads)

    def sdpa_alone(q, k, v):
        return scaled_dot_product_attention(q, k, v, is_causal=causal)

    def flash3(q, k, v):
        # With one query of each sequence, the function that splits keys among SMs.
        function = FA3.flash_attn_with_kvcache if queries == 1 else FA3.flash_attn_func
        return function(q, k, v, causal=causal)

    inputs = [
        (random(batch, heads, queries, d), random(batch, kv_heads, keys, d), random(batch, kv_heads, keys, dv))
        for _ in range(sets)
    ]
    peers = {
        "cuDNN": lambda: Peer(sdpa, lambda: sdpa_kernel(SDPBackend.CUDNN_ATTENTION), inputs),
        "flash": lambda: Peer(sdpa, lambda: sdpa_kernel(SDPBackend.FLASH_ATTENTION), inputs),
    }
    if d > 256:
        # Heads that share keys have copies of them: it takes no others.
        alone = [(q, *(x.repeat_interleave(heads // kv_heads, 1) for x in (k, v))) for q, k, v in inputs]
        peers["efficient"] = lambda: Peer(sdpa_alone, lambda: sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION), alone)
    elif FA3 is not None:
        # Its tensors are [batch, length, heads, columns].
        lengthwise = [tuple(x.transpose(1, 2).contiguous() for x in tensors) for tensors in inputs]
        peers["FA3"] = lambda: Peer(flash3, contextlib.nullcontext, lengthwise)
    return those_that_can(peers)


def prepare_packed(heads, kv_heads, d, causal, *lengths):
    heads, kv_heads, d, causal, *lengths = map(int, (heads, kv_heads, d, causal, *lengths))
    if FA3 is None:
        return {}
    rows, longest = sum(lengths), max(lengths)
    offsets = torch.tensor([0, *lengths], device="cuda").cumsum(0).to(torch.int32)

    def random(heads):
        return torch.randn((rows, heads, d), device="cuda", dtype=torch.bfloat16)

    def flash3(q, k, v):
        return FA3.flash_attn_varlen_func(q, k, v, offsets, offsets, longest, longest, causal=bool(causal))

    inputs = [(random(heads), random(kv_heads), random(kv_heads))]
    return those_that_can({"FA3": lambda: Peer(flash3, contextlib.nullcontext, inputs)})


def prepare_biased(*sizes):
    shape, mask = sizes[:4], sizes[4:]

    def random(shape):
        return torch.randn([int(size) for size in shape], device="cuda", dtype=torch.bfloat16)

    def sdpa(q, k, v, mask):
        return scaled_dot_product_attention(q, k, v, attn_mask=mask)

    batch, heads, length, _ = map(int, shape)
    # Stretched without a copy, as the backends want it.
    inputs = [(random(shape), random(shape), random(shape), random(mask).expand(batch, heads, length, length))]
    ways = {"cuDNN": SDPBackend.CUDNN_ATTENTION, "efficient": SDPBackend.EFFICIENT_ATTENTION}

    def peer(way):
        return lambda: Peer(sdpa, lambda: sdpa_kernel(way), inputs)

    return those_that_can({name: peer(way) for name, way in ways.items()})


def prepare_sparse(*sizes):
    batch, heads, kv_heads, length, d, block, causal, *densities = map(int, sizes)
    try:
        from torch.nn.attention.flex_attention import BlockMask, flex_attention
    except ImportError:
        return {}

    def random(heads):
        return torch.randn((batch, heads, length, d), device="cuda", dtype=torch.bfloat16)

    inputs = [(random(heads), random(kv_heads), random(kv_heads))]
    along = -(-length // block)
    diagonal = torch.eye(along, device="cuda", dtype=torch.bool).expand(1, heads, along, along)
    # As if it were the first: of several shapes it would compile one kernel for all.
    torch.compiler.reset()
    compiled = torch.compile(flex_attention)
    # Tiles that divide small blocks; else it chooses.
    options = {"BLOCK_M": block, "BLOCK_N": block} if block < 128 else None

    def causally(_batch, _head, query, key):
        return query >= key

    def lists(blocks):
        order = blocks.to(torch.int8).argsort(dim=-1, descending=True, stable=True)
        return blocks.sum(-1).to(torch.int32), order.to(torch.int32)

    def peer(hundredths):
        listed = (torch.rand((1, heads, along, along), device="cuda") < hundredths / 100) | diagonal
        if causal:
            # Those of the diagonal are masked inside, the others are whole.
            masked, whole = diagonal, listed.tril(-1)
        else:
            masked, whole = torch.zeros_like(listed), listed
        mask_mod = causally if causal else None

        def flex(q, k, v):
            return compiled(q, k, v, block_mask=mask, enable_gqa=heads != kv_heads, kernel_options=options)

        try:
            mask = BlockMask.from_kv_blocks(
                *lists(masked), *lists(whole), BLOCK_SIZE=block, mask_mod=mask_mod, seq_lengths=(length, length)
            )
            return Peer(flex, contextlib.nullcontext, inputs)
        except Exception as error:
            # Compilers fail in ways of their own.
            raise RuntimeError(first_line(error)) from error

    return those_that_can({f"flex{of}": lambda of=of: peer(of) for of in densities})


def those_that_can(peers):
    found = {}
    for name, peer in peers.items():
        try:
            found[name] = peer()
        except RuntimeError as error:
            reason = f"{name} does not compute this: {first_line(error)}"
            if reason not in REASONS:
                REASONS.add(reason)
                print(reason, file=sys.stderr)
    return found


def main():
    torch.manual_seed(1)
    # Recording a graph collects garbage, of which imports leave none.
    gc.freeze()
    cudnn = torch.backends.cudnn.version()
    third = "" if FA3 is None else f", flash-attention 3 of {FA3.__name__}"
    answer(f"PyTorch {torch.__version__}, cuDNN {cudnn}{third}")
    peers = {}
    with torch.inference_mode():
        for line in sys.stdin:
            question, *words = line.split()
            if question == "case":
                # The last case's memory makes room.
                peers = {}
                torch.cuda.empty_cache()
                peers = prepare(*words)
                answer(" ".join(peers))
            elif question == "packed":
                peers = {}
                torch.cuda.empty_cache()
                peers = prepare_packed(*words)
                answer(" ".join(peers))
            elif question == "biased":
                peers = {}
                torch.cuda.empty_cache()
                peers = prepare_biased(*words)
                answer(" ".join(peers))
            elif question == "sparse":
                peers = {}
                torch.cuda.empty_cache()
                peers = prepare_sparse(*words)
                answer(" ".join(peers))
            elif question == "turn":
                answer(peers[words[0]].turn())
            elif question == "host":
                answer(peers[words[0]].host())


main()
