# GEMMs of bytes by cuBLAS and CUTLASS. Words of a case: KIND M N K SETS


def versions():
    return f"PyTorch {torch.__version__}, CUDA {torch.version.cuda}"


def prepare(kind, m, n, k, sets):
    m, n, k, sets = map(int, (m, n, k, sets))
    if kind == "i8":
        integers = lambda lines: torch.randint(-128, 128, (lines, k), device="cuda", dtype=torch.int8)
        return Peer(lambda a, b: torch._int_mm(a, b.t()), [(integers(m), integers(n)) for _ in range(sets)])
    if kind in ("tf32", "f32"):
        torch.backends.cuda.matmul.allow_tf32 = kind == "tf32"
        numbers = lambda lines: torch.randn(lines, k, device="cuda")
        return Peer(lambda a, b: a @ b.t(), [(numbers(m), numbers(n)) for _ in range(sets)])
    # It gives no amax.
    if kind not in ("e4m3", "e4m3_fast", "e4m3_narrow", "e4m3_narrow_fast", "e4m3_rows", "e4m3_blocks"):
        raise ValueError(f"no peer for {kind}")
    floats = lambda lines: torch.randn(lines, k, device="cuda").to(torch.float8_e4m3fn)
    scale_c = torch.full((1,), 0.5 * 448 / (8 * k**0.5), device="cuda")
    ones = lambda *shape: torch.ones(shape, device="cuda")
    if kind == "e4m3_rows":
        scales = ones(m, 1), ones(1, n)
    elif kind == "e4m3_blocks":
        # Both with neighbours along M and N one behind the other.
        scales = ones(k // 128, m).t(), ones(n // 128, k // 128).t()
    else:
        scales = ones(1), ones(1)

    def product(a, b):
        to = {"out_dtype": torch.bfloat16, "use_fast_accum": kind.endswith("fast")}
        if "narrow" in kind:
            to |= {"out_dtype": torch.float8_e4m3fn, "scale_result": scale_c}
        return torch._scaled_mm(a, b.t(), *scales, **to)

    return Peer(product, [(floats(m), floats(n)) for _ in range(sets)])


serve(versions, prepare)
