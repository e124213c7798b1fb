# The scan of Mamba-2 by mamba-ssm's Triton kernels. Words of a case: scan|chunk-state|chunk-scan|gradient BATCH LENGTH HEADS COLUMNS STATE SETS
#
# Tensors are bf16, with one group, in chunks of 256. chunk-state and chunk-scan are two of a scan's kernels, by themselves.

import importlib.util
import types

CHUNK = 256


def load():
    """mamba-ssm's modules of Triton kernels, without those that need its CUDA extension, which its `__init__` imports."""
    if "mamba_ssm" not in sys.modules:
        spec = importlib.util.find_spec("mamba_ssm")
        if spec is None:
            raise ImportError("No module named 'mamba_ssm'")
        package = types.ModuleType("mamba_ssm")
        package.__path__ = list(spec.submodule_search_locations)
        sys.modules["mamba_ssm"] = package
    from mamba_ssm.ops.triton import ssd_chunk_scan, ssd_chunk_state, ssd_combined

    return ssd_combined, ssd_chunk_state, ssd_chunk_scan


def versions():
    global combined, state, scan
    import triton

    combined, state, scan = load()
    tune_quickly()
    return f"PyTorch {torch.__version__}, Triton {triton.__version__}, mamba-ssm's Triton kernels"


def prepare(what, batch, length, heads, columns, width, sets):
    batch, length, heads, columns, width, sets = map(int, (batch, length, heads, columns, width, sets))
    a = torch.full((heads,), -1.0, device="cuda")

    def random(*shape, by=1.0):
        return torch.randn(shape, device="cuda", dtype=torch.bfloat16) * by

    def inputs():
        b, c = (random(batch, length, 1, width, by=0.3) for _ in range(2))
        return random(batch, length, heads, columns), random(batch, length, heads), b, c

    def whole(x, dt, b, c):
        return combined.mamba_chunk_scan_combined(x, dt, a, b, c, CHUNK, dt_softplus=True)

    all_inputs = [inputs() for _ in range(sets)]
    if what == "scan":
        return Peer(whole, all_inputs)
    if what == "gradient":
        by = a.clone()
        of = lambda x, dt, a, b, c: combined.mamba_chunk_scan_combined(x, dt, a, b, c, CHUNK, dt_softplus=True)
        return Peer(backward, [gradient(of, (x, dt, by, b, c), ()) for x, dt, b, c in all_inputs])

    def parts(x, dt, b, c):
        _, _, dt, sums, states, _ = combined._mamba_chunk_scan_combined_fwd(
            x, dt, a, b, c, CHUNK, dt_softplus=True
        )
        return x, dt, b, c, sums, states, combined._bmm_chunk_fwd(c, b, CHUNK, output_dtype=torch.float32)

    all_parts = [parts(*each) for each in all_inputs]
    if what == "chunk-state":
        one = lambda x, dt, b, c, sums, states, cb: state._chunk_state_fwd(b, x, dt, sums, states_in_fp32=True)
    else:
        one = lambda x, dt, b, c, sums, states, cb: scan._chunk_scan_fwd(cb, x, dt, sums, c, states)
    return Peer(one, all_parts)


serve(versions, prepare)
