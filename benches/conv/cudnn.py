"""Convolutions of PyTorch by cuDNN, measured when the benchmark that runs this asks for it.

Questions come in lines, and each is answered by one:

    case TYPE IMAGES PLANES SIZE CHANNELS OUTPUTS FILTER STRIDE GROUPS y|dx|dw SETS   ok
    turn                                                                       milliseconds of a launch on the device

Images have 0 planes. The first line says what there is. `error` begins the answer to what cannot be. Tensors are channels-last, and cuDNN tries its kernels for
each case.
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
    from torch.nn.functional import conv2d, conv3d
    from torch.nn.grad import conv2d_input, conv2d_weight, conv3d_input, conv3d_weight

    torch.cuda.init()
except Exception as error:
    answer(f"error {first_line(error)}")
    sys.exit()


class Peer:
    """A function on every set of inputs, as a graph that takes 2 ms at least."""

    def __init__(self, function, sets):
        self.function, self.sets = function, sets
        for _ in range(3):
            function(*sets[0])
        self.record(1)
        self.turn()
        self.record(min(max(math.ceil(2 / (self.turn() * len(sets))), 1), 1000))

    def record(self, cycles):
        self.graph, self.launches = torch.cuda.CUDAGraph(), cycles * len(self.sets)
        with torch.cuda.graph(self.graph):
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


def prepare(dtype, images, planes, size, channels, outputs, taps, stride, groups, which, sets):
    images, planes, size, channels, outputs = map(int, (images, planes, size, channels, outputs))
    taps, stride, groups, sets = map(int, (taps, stride, groups, sets))
    dtype = {"f16": torch.float16, "bf16": torch.bfloat16}[dtype]
    padding = taps // 2
    pixels = (planes, size, size) if planes else (size, size)
    out = tuple((pixels + 2 * padding - taps) // stride + 1 for pixels in pixels)
    options = {"stride": stride, "padding": padding, "groups": groups}
    order = torch.channels_last_3d if planes else torch.channels_last
    forward = conv3d if planes else conv2d
    backward, weight = (conv3d_input, conv3d_weight) if planes else (conv2d_input, conv2d_weight)

    def random(*shape):
        tensor = torch.randn(shape, device="cuda", dtype=dtype)
        return tensor.to(memory_format=order)

    x, y = (images, channels, *pixels), (images, outputs, *out)
    w = (outputs, channels // groups, *(taps for _ in pixels))
    if which == "y":
        return Peer(lambda x, w: forward(x, w, **options), [(random(*x), random(*w)) for _ in range(sets)])
    if which == "dx":
        inputs = [(random(*w), random(*y)) for _ in range(sets)]
        return Peer(lambda w, dy: backward(x, w, dy, **options), inputs)
    inputs = [(random(*x), random(*y)) for _ in range(sets)]
    return Peer(lambda x, dy: weight(x, w, dy, **options), inputs)


def main():
    torch.manual_seed(1)
    torch.backends.cudnn.benchmark = True
    # Recording a graph collects garbage, of which imports leave none.
    gc.freeze()
    answer(f"PyTorch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}")
    peer = None
    with torch.inference_mode():
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
            except RuntimeError as error:
                answer(f"error {first_line(error)}")


main()
