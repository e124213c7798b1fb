// Arithmetic of f32, and the functions of the mathematical library.
#include <cuda_fp16.h>

extern "C" __global__ void floats(const float* in, float* out) {
    int t = threadIdx.x;
    float x = in[t], y = in[t + 1];
    out[t] = __fmaf_rz(x, y, 0.1f) + __fadd_ru(x, y) + __fmul_rd(x, y) + __fdiv_rn(x, y);
    out[32 + t] = sinf(x * 1000) + cosf(y) + tanf(x);
    out[64 + t] = expf(x) + logf(fabsf(y) + 1) + powf(fabsf(x) + 0.5f, y);
    out[96 + t] = __sinf(x) + __expf(y) + __frsqrt_rn(fabsf(x) + 1) + __fdividef(x, y);
    out[128 + t] = rintf(x * 10) + truncf(y * 10) + (float)__float2int_rd(x * 100) + (float)__float2ull_rz(fabsf(y) * 1e10f);
    out[160 + t] = __saturatef(x) + fmodf(x * 50, 3.0f) + ldexpf(y, 5) + __frcp_rn(x) + __fsqrt_ru(fabsf(y));
    out[192 + t] = erff(x) + tgammaf(fabsf(y) + 1) + atan2f(x, y);
    out[224 + t] = __half2float(__float2half(x)) + normf(3, &in[t]) + __int_as_float(__float_as_int(x) & 0xffff0000);
}
