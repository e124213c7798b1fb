# Linear attention by the Triton kernels of fla-core. Words of a case: FORM BATCH ROWS HEADS COLUMNS forward|backward SETS
#
# FORM is plain, retention, gates, gla or gated-delta. Tensors are bf16, decays and gates are f32 logarithms. Q, K, V and gates have gradients.


def versions():
    global chunk_gated_delta_rule, chunk_gla, chunk_simple_gla
    import fla
    import triton
    from fla.ops.gated_delta_rule import chunk_gated_delta_rule
    from fla.ops.gla import chunk_gla
    from fla.ops.simple_gla import chunk_simple_gla

    tune_quickly()
    return f"PyTorch {torch.__version__}, Triton {triton.__version__}, fla-core {fla.__version__}"


def prepare(form, batch, rows, heads, columns, which, sets):
    batch, rows, heads, columns, sets = map(int, (batch, rows, heads, columns, sets))

    def random(*shape, dtype=torch.bfloat16):
        return torch.randn(shape, device="cuda", dtype=dtype)

    def gates(*shape, scale):
        return random(*shape, dtype=torch.float32).abs() * -scale

    decay = gates(heads, scale=0.01)

    def inputs():
        qkv = tuple(random(batch, rows, heads, columns) for _ in range(3))
        qkv[1].mul_(columns**-0.5)
        if form in ("gates", "gated-delta"):
            return *qkv, gates(batch, rows, heads, scale=0.1)
        if form == "gla":
            return *qkv, gates(batch, rows, heads, columns, scale=0.05)
        return qkv

    beta = random(batch, rows, heads, dtype=torch.float32).sigmoid()
    # `chunk_linear_attn` and `chunk_retention` are the first two; the latter makes the decays anew in each call.
    function = {
        "plain": lambda q, k, v: chunk_simple_gla(q, k, v, scale=1.0)[0],
        "retention": lambda q, k, v: chunk_simple_gla(q, k, v, g_gamma=decay, scale=1.0)[0],
        "gates": lambda q, k, v, g: chunk_simple_gla(q, k, v, g=g, scale=1.0)[0],
        "gla": lambda q, k, v, g: chunk_gla(q, k, v, g, scale=1.0)[0],
        "gated-delta": lambda q, k, v, g: chunk_gated_delta_rule(q, k, v, g, beta, scale=1.0)[0],
    }[form]
    all_inputs = [inputs() for _ in range(sets)]
    if which == "forward":
        return Peer(function, all_inputs)
    return Peer(backward, [gradient(function, each, ()) for each in all_inputs])


serve(versions, prepare)
