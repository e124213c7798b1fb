# Products of groups by CUTLASS. Words of a case: TOKENS EXPERTS TOP N K GRADIENT SETS


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


def prepare(tokens, experts, top, n, k, gradient, sets):
    tokens, experts, top, n, k, gradient, sets = map(int, (tokens, experts, top, n, k, gradient, sets))
    ends = torch.tensor(counts(tokens, experts, top)).cumsum(0).to(torch.int32).cuda()
    normal = lambda *shape: torch.randn(*shape, device="cuda", dtype=torch.bfloat16)

    def products(a, b):
        return torch._grouped_mm(a, b.transpose(1, 2), offs=ends)

    def gradients(dy, x):
        return torch._grouped_mm(dy.t(), x, offs=ends)

    if gradient:
        return Peer(gradients, [(normal(tokens * top, n), normal(tokens * top, k)) for _ in range(sets)])
    return Peer(products, [(normal(tokens * top, k), normal(experts, n, k)) for _ in range(sets)])


serve(versions, prepare)
