# The gradients of PyTorch's attention. Words of a case: cuDNN|flash BATCH HEADS KV_HEADS LENGTH COLUMNS CAUSAL SETS

from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

BACKENDS = {"cuDNN": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION}


def versions():
    return f"PyTorch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}"


def prepare(backend, *sizes):
    batch, heads, kv_heads, length, columns, causal, sets = map(int, sizes)

    def inputs():
        return tuple(
            torch.randn((batch, of, length, columns), device="cuda", dtype=torch.bfloat16)
            for of in (heads, kv_heads, kv_heads)
        )

    def attention(q, k, v):
        return scaled_dot_product_attention(q, k, v, is_causal=bool(causal), enable_gqa=heads != kv_heads)

    with sdpa_kernel(BACKENDS[backend]):
        return Peer(backward, [gradient(attention, inputs(), ()) for _ in range(sets)])


serve(versions, prepare)
