# Convolutions by cuDNN. Words of a case: TYPE IMAGES PLANES SIZE CHANNELS OUTPUTS FILTER STRIDE GROUPS y|dx|dw SETS
#
# Images have 0 planes. Tensors are channels-last, and cuDNN tries its kernels for each case.

from torch.nn.functional import conv2d, conv3d
from torch.nn.grad import conv2d_input, conv2d_weight, conv3d_input, conv3d_weight


def versions():
    torch.backends.cudnn.benchmark = True
    return f"PyTorch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}"


def prepare(dtype, images, planes, size, channels, outputs, taps, stride, groups, which, sets):
    images, planes, size, channels, outputs = map(int, (images, planes, size, channels, outputs))
    taps, stride, groups, sets = map(int, (taps, stride, groups, sets))
    padding = taps // 2
    pixels = (planes, size, size) if planes else (size, size)
    out = tuple((pixels + 2 * padding - taps) // stride + 1 for pixels in pixels)
    options = {"stride": stride, "padding": padding, "groups": groups}
    order = torch.channels_last_3d if planes else torch.channels_last
    forward = conv3d if planes else conv2d
    backward, weight = (conv3d_input, conv3d_weight) if planes else (conv2d_input, conv2d_weight)

    def random(*shape):
        tensor = torch.randn(shape, device="cuda", dtype=TYPES[dtype])
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


serve(versions, prepare)
