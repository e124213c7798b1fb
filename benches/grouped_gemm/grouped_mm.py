# Products of groups by CUTLASS. Words of a case: TOKENS EXPERTS TOP N K Products|Gated|Gradient|Blocks|Narrow SETS. Of e4m3
# PyTorch has scales of rows and not of blocks; in place of narrow weights it gets bf16.


def versions():
    return f"PyTorch {torch.__version__}, CUDA {torch.version.cuda}"


def counts(tokens, experts, top):
    all, word = [0] * experts, 0xFFFFFFFF
    for token in range(tokens):
        x = (token * 2654435761 + 12345) & word
        x = ((x ^ (x >> 15)) * 2246822519) & word
        x ^= x >> 13
        for i in range(top):
            all[(x + i * ((x >> 16) | 1)) % experts] += 1
    return all


def prepare(tokens, experts, top, n, k, of, sets):
    tokens, experts, top, n, k, sets = map(int, (tokens, experts, top, n, k, sets))
    ends = torch.tensor(counts(tokens, experts, top)).cumsum(0).to(torch.int32).cuda()
    normal = lambda *shape: torch.randn(*shape, device="cuda", dtype=torch.bfloat16)
    bytes = lambda *shape: normal(*shape).to(torch.float8_e4m3fn)
    scales = lambda *shape: torch.ones(*shape, device="cuda", dtype=torch.float32)
    rows = tokens * top

    def products(a, b):
        return torch._grouped_mm(a, b.transpose(1, 2), offs=ends)

    def units(a, b):
        gates, ups = products(a, b).chunk(2, dim=1)
        return torch.nn.functional.silu(gates) * ups

    def gradients(dy, x):
        return torch._grouped_mm(dy.t(), x, offs=ends)

    def scaled(a, b, of_a, of_b):
        return torch._scaled_grouped_mm(a, b.transpose(1, 2), of_a, of_b, offs=ends, out_dtype=torch.bfloat16)

    if of == "Blocks":
        return Peer(scaled, [(bytes(rows, k), bytes(experts, n, k), scales(rows), scales(experts, n)) for _ in range(sets)])
    if of == "Gradient":
        return Peer(gradients, [(normal(rows, n), normal(rows, k)) for _ in range(sets)])
    return Peer(units if of == "Gated" else products, [(normal(rows, k), normal(experts, n, k)) for _ in range(sets)])


serve(versions, prepare)
