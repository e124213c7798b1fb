// A switch that becomes an indirect branch.
extern "C" __global__ void interpret(const unsigned char* program, int steps, unsigned* out) {
    unsigned a = threadIdx.x, b = 1;
    for (int i = 0; i < steps; i++) {
        switch (program[(i + threadIdx.x) % steps]) {
            case 0: a += b; break;
            case 1: a ^= b << 3; break;
            case 2: b = a - b; break;
            case 3: a = a * 2654435761u; break;
            case 4: b = __brev(a); break;
            case 5: a = __popc(a) + b; break;
            case 6: a = (a << 7) | (a >> 25); break;
            case 7: b = b / 3 + 1; break;
            case 8: a = __clz(a) ^ b; break;
            case 9: a = __byte_perm(a, b, 0x5140); break;
            case 10: b = b % 1000 + a; break;
            case 11: a = __funnelshift_l(a, b, 5); break;
            default: a = ~a; break;
        }
    }
    out[threadIdx.x] = a ^ b;
}
