"""Functions of PyTorch, measured when the benchmark that runs this asks for it.

Questions come in lines, and each is answered by one:

    case WORDS   ok, when what the words name is ready to be measured
    turn         milliseconds of a launch on the device

The first line says what there is. `error` begins the answer to what cannot be. What follows this file calls `serve` at its end.
"""

import gc
import math
import os
import sys

ANSWERS = os.fdopen(os.dup(1), "w")
# What libraries print is no answer.
os.dup2(2, 1)


def answer(line):
    print(line, file=ANSWERS, flush=True)


def first_line(error):
    return (str(error).splitlines() or [type(error).__name__])[0]


try:
    import torch

    torch.cuda.init()
except Exception as error:
    answer(f"error {first_line(error)}")
    sys.exit()

TYPES = {"f16": torch.float16, "bf16": torch.bfloat16}


class Peer:
    """A function on every set of inputs, as a graph that takes 2 ms at least."""

    def __init__(self, function, sets):
        self.function, self.sets = function, sets
        # It may try variants of its kernels first.
        for _ in range(3):
            function(*sets[0])
        self.record(1)
        self.turn()
        self.record(min(max(math.ceil(2 / (self.turn() * len(sets))), 1), 1000))

    def record(self, cycles):
        self.graph, self.launches = torch.cuda.CUDAGraph(), cycles * len(self.sets)
        # Gradients are computed on the stream of what they are gradients of.
        with torch.cuda.graph(self.graph, stream=torch.cuda.current_stream()):
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


def gradient(function, inputs, others):
    """What `Peer` measures of `function(*inputs, *others)`: gradients by `inputs`. Gives a set of it."""
    with torch.enable_grad():
        inputs = tuple(x.requires_grad_() for x in inputs)
        y = function(*inputs, *others)
    return y, inputs, torch.randn_like(y)


def backward(y, inputs, dy):
    return torch.autograd.grad(y, inputs, dy, retain_graph=True)


def tune_quickly():
    """Has Triton try each variant of a kernel for some 20 ms: there are hundreds."""
    from triton.runtime.autotuner import Autotuner
    from triton.testing import do_bench

    def bench(self, call, quantiles):
        return do_bench(call, warmup=4, rep=16, quantiles=quantiles)

    Autotuner.do_bench = bench


def serve(versions, prepare):
    """Answers with what `versions` names, and with what `prepare` makes of a case's words: a `Peer`."""
    try:
        answer(versions())
    except Exception as error:
        answer(f"error {first_line(error)}")
        return
    torch.manual_seed(1)
    # Recording a graph collects garbage, of which imports leave none.
    gc.freeze()
    peer = None
    with torch.no_grad(), torch.cuda.stream(torch.cuda.Stream()):
        for line in sys.stdin:
            question, *words = line.split()
            try:
                if question == "case":
                    # The last case's memory makes room.
                    peer = None
                    torch.cuda.empty_cache()
                    peer = prepare(*words)
                    answer("ok")
                elif question == "turn":
                    answer(peer.turn())
            except Exception as error:
                answer(f"error {first_line(error)}")
