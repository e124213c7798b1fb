"""Exchanges tensors between PyTorch and the library that lib.rs is: python3 exchange.py libdlpack.so

Each line is a check; without PyTorch or a GPU it says so.
"""

import ctypes
import sys

try:
    import torch
except ImportError:
    sys.exit("skipped: there is no PyTorch")
if not torch.cuda.is_available():
    sys.exit("skipped: there is no GPU")

ours = ctypes.CDLL(sys.argv[1])
python = ctypes.pythonapi
pointer, text = ctypes.c_void_p, ctypes.c_char_p
python.PyCapsule_New.restype = ctypes.py_object
python.PyCapsule_New.argtypes = [pointer, text, pointer]
python.PyCapsule_GetPointer.restype = pointer
python.PyCapsule_GetPointer.argtypes = [ctypes.py_object, text]
python.PyCapsule_SetName.argtypes = [ctypes.py_object, text]
for name in ["fill", "weight", "weight_old", "make", "make_old", "make_shared"]:
    getattr(ours, name).restype = text

NEW, OLD = b"dltensor_versioned", b"dltensor"
# A capsule's name has to outlive it.
USED = {NEW: b"used_dltensor_versioned", OLD: b"used_dltensor"}
failures = 0


def check(what, right, seen=""):
    global failures
    failures += not right
    print("ok  " if right else "WRONG", what, seen if not right else "")


def stream():
    return pointer(torch.cuda.current_stream().cuda_stream)


def taken(x, name=NEW):
    """The struct of a tensor, which belongs to the caller then."""
    capsule = x.__dlpack__(max_version=(1, 1)) if name == NEW else torch.utils.dlpack.to_dlpack(x)
    struct = python.PyCapsule_GetPointer(capsule, name)
    python.PyCapsule_SetName(capsule, USED[name])
    return pointer(struct)


def given(struct, name=NEW):
    """PyTorch's tensor of a struct."""
    return torch.utils.dlpack.from_dlpack(python.PyCapsule_New(struct, name, None))


def weighed(x, name=NEW):
    found = ctypes.c_double()
    function = ours.weight if name == NEW else ours.weight_old
    try:
        error = function(taken(x, name), stream(), ctypes.byref(found))
    except Exception as error:  # PyTorch does not export it.
        return f"{type(error).__name__}: {error}"
    return error.decode() if error else found.value


def weight(x):
    x = x.double().flatten()
    return (x * torch.arange(1, x.numel() + 1, device=x.device)).sum().item()


def allocated():
    torch.cuda.synchronize()
    return torch.cuda.memory_allocated()


print(f"PyTorch {torch.__version__}, {torch.cuda.get_device_name()}")
torch.manual_seed(0)
x = torch.randn(37, 51, device="cuda")
for dtype in [torch.float32, torch.float16, torch.bfloat16, torch.uint8, torch.int8, torch.int32, torch.int64,
              torch.uint32, torch.float8_e4m3fn, torch.float8_e5m2]:
    y = (x * 8).clamp(0, 100).to(torch.int32).to(dtype) if not dtype.is_floating_point else x.to(dtype)
    expected = weight(y.to(torch.float32) if dtype.is_floating_point else y.to(torch.int64))
    found = weighed(y)
    check(f"PyTorch's {dtype} is read", isinstance(found, float) and abs(found - expected) <= 1e-9 * abs(expected), f"{found}, not {expected}")
for what, y in {
    "transposed": x.t(),
    "every third column of the rows from 5 on": x[5:, ::3],
    "stretched": x[:1].expand(9, 51),
    "of no elements": x[:0],
    "a number": x[3, 4],
    "of five dimensions": x[:36].reshape(2, 3, 6, 3, 17).permute(4, 0, 2, 1, 3),
}.items():
    for name in [NEW, OLD]:
        found, expected = weighed(y, name), weight(y)
        check(f"{what}, {name.decode()}", isinstance(found, float) and abs(found - expected) <= 1e-9 * abs(expected) + 1e-9, f"{found}, not {expected}")

side = torch.cuda.Stream()
with torch.cuda.stream(side):
    y = torch.zeros(1 << 24, device="cuda")
    torch.cuda._sleep(20_000_000)
    y += 3
    error = ours.fill(taken(y), ctypes.c_float(2.5), stream())
    y *= 2
side.synchronize()
check("a tensor is set in the order of PyTorch's stream", not error and bool((y == 5).all()), f"{error} {y.min().item()} {y.max().item()}")

for what, y, expected in [
    ("on the CPU", torch.zeros(4), "`device` was the CPU; it must be CUDA device 0, the memory of cuda:0"),
    ("of f64", torch.zeros(4, device="cuda", dtype=torch.float64), "`dtype` was of DLPack's code 2 with 64 bits and 1 lanes; it must be one of f16"),
    ("of complex numbers", torch.zeros(4, device="cuda", dtype=torch.complex64), "`dtype` was of DLPack's code 5 with 64 bits and 1 lanes; it must be one of f16"),
    ("of six dimensions", torch.zeros(1, 1, 1, 1, 1, 1, device="cuda"), "`ndim` was 6; it must be from 0 to 5"),
]:
    found = weighed(y)
    check(f"a tensor {what} is refused", isinstance(found, str) and found.startswith(expected), found)
error = ours.fill(taken(x.t()), ctypes.c_float(1), stream())
check("a transposed tensor is not set", bool(error) and b"it must be contiguous" in error, error)
error = ours.fill(taken(x[:1].expand(9, 51)), ctypes.c_float(1), stream())
check("a stretched tensor is not set", bool(error) and b"no two indices mean the same element" in error, error)

del y  # the last one of those
before = allocated()
y = torch.zeros(1 << 26, device="cuda")
struct = taken(y)
del y
held = allocated() - before
found = ctypes.c_double()
ours.weight(struct, stream(), ctypes.byref(found))
check("PyTorch's memory stays as long as the capsule", held == 1 << 28 and allocated() == before, f"{held} {allocated() - before}")


def made(function, name, count):
    structs = [pointer() for _ in range(count)]
    error = function(ctypes.c_size_t(8192), ctypes.c_size_t(8192), *[ctypes.byref(struct) for struct in structs])
    if error:
        sys.exit(error.decode())
    return [given(struct, name) for struct in structs]


for function, name, count in [(ours.make, NEW, 1), (ours.make_old, OLD, 1), (ours.make_shared, NEW, 2)]:
    # What PyTorch keeps for itself would come back in between.
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    free = torch.cuda.mem_get_info()[0]
    try:
        tensors = made(function, name, count)
    except Exception as error:
        check(f"{function.__name__}: PyTorch takes it", False, f"{type(error).__name__}: {error}")
        continue
    used = free - torch.cuda.mem_get_info()[0]
    expected = torch.arange(8192 * 8192, device="cuda", dtype=torch.float32).reshape(8192, 8192)
    right = bool((tensors[0] == expected).all()) and bool((tensors[-1] == (expected.t() if count == 2 else expected)).all())
    check(f"{function.__name__}: PyTorch computes with it", right)
    check(f"{function.__name__}: strides are ours", tensors[-1].stride() == ((1, 8192) if count == 2 else (8192, 1)), tensors[-1].stride())
    if count == 1:
        tensors[0] += 1
        check(f"{function.__name__}: PyTorch writes it", bool((tensors[0] == expected + 1).all()))
    last = tensors.pop()
    tensors.clear()
    del expected
    torch.cuda.empty_cache()
    check(f"{function.__name__}: it stays while PyTorch has a tensor of it", free - torch.cuda.mem_get_info()[0] >= 1 << 28 and last[1, 1].item() > 0, free - torch.cuda.mem_get_info()[0])
    del last
    torch.cuda.synchronize()
    check(f"{function.__name__}: the memory comes back", used >= 1 << 28 and torch.cuda.mem_get_info()[0] >= free - (8 << 20), f"{used} {free - torch.cuda.mem_get_info()[0]}")

print(f"{failures} wrong")
sys.exit(bool(failures))
