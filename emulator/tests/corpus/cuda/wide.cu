// Integers of 64 and 128 bits: carries, products, quotients; products of bytes.
typedef unsigned __int128 u128;

extern "C" __global__ void wide(const unsigned long long* in, unsigned long long* out) {
    int t = threadIdx.x;
    unsigned long long a = in[t], b = in[t + 1], c = in[t + 2];
    u128 x = ((u128)a << 64) | b, y = ((u128)b << 64) | c;
    u128 sum = x + y, difference = x - y, product = x * y;
    out[t] = (unsigned long long)(sum >> 64) ^ (unsigned long long)sum;
    out[32 + t] = (unsigned long long)(difference >> 64) ^ (unsigned long long)difference;
    out[64 + t] = (unsigned long long)(product >> 64) ^ (unsigned long long)product;
    out[96 + t] = __umul64hi(a, b) + a / (c | 1) + a % (b | 1);
    u128 quotient = x / (c | 1);
    out[128 + t] = (unsigned long long)(quotient >> 64) + (unsigned long long)quotient;
    unsigned low, high;
    asm("{ add.cc.u32 %0, %2, %4; addc.u32 %1, %3, %5; }" : "=r"(low), "=r"(high)
        : "r"((unsigned)a), "r"((unsigned)(a >> 32)), "r"((unsigned)b), "r"((unsigned)(b >> 32)));
    out[160 + t] = (unsigned long long)high << 32 | low;
    asm("{ mad.lo.cc.u32 %0, %2, %3, %4; madc.hi.u32 %1, %2, %3, %5; }" : "=r"(low), "=r"(high)
        : "r"((unsigned)a), "r"((unsigned)b), "r"((unsigned)c), "r"((unsigned)(c >> 32)));
    out[192 + t] = (unsigned long long)high << 32 | low;
    asm("{ sub.cc.u32 %0, %2, %4; subc.u32 %1, %3, %5; }" : "=r"(low), "=r"(high)
        : "r"((unsigned)a), "r"((unsigned)(a >> 32)), "r"((unsigned)b), "r"((unsigned)(b >> 32)));
    out[224 + t] = (unsigned long long)high << 32 | low;
}

extern "C" __global__ void bytes(const int* in, int* out) {
    int t = threadIdx.x, a = in[t], b = in[t + 1];
    out[t] = __dp4a(a, b, 5) + (int)__dp4a((unsigned)a, (unsigned)b, 7u);
    out[32 + t] = __dp2a_lo(a, b, 1) ^ __dp2a_hi(a, b, 2);
    out[64 + t] = __sad(a, b, 3) + __usad(a, b, 1) + __mulhi(a, b) + __mul24(a, b) + __hadd(a, b) + __rhadd(a, b);
    out[96 + t] = __vadd4(a, b) ^ __vabsdiffu4(a, b) ^ __vmaxs2(a, b);
    out[128 + t] = __ffs(a) + __clzll((long long)a * b) + __popcll((long long)a * b) + abs(b);
    short s = (short)a, u = (short)b;
    out[160 + t] = (short)(s * u) + (s >> 3) + (unsigned char)(a + b) + (signed char)b * 3;
    out[192 + t] = (b ? a / b : 0) + (b ? a % b : 0) + (unsigned)a / 7 + (a < b ? min(a, 3) : max(b, 9));
}
