// Arithmetic and conversions of half, bfloat16 and 8-bit floats.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

extern "C" __global__ void half_math(const half2* a, const half2* b, half2* out) {
    int t = threadIdx.x;
    half2 x = a[t], y = b[t];
    out[t] = __hfma2(x, y, __hadd2(x, y));
    out[32 + t] = __hmul2_sat(x, y);
    out[64 + t] = __hmin2(__habs2(x), __hneg2(y));
    out[96 + t] = __hfma2_relu(x, y, x);
    out[128 + t] = __h2div(x, y);
    out[160 + t] = h2sqrt(__habs2(x));
    out[192 + t] = h2exp2(x);
    out[224 + t] = __hgt2(x, y);
    out[256 + t] = __halves2half2(__float2half_rz(__low2float(x) * 1.001f), __int2half_rn(t * 4099));
    out[288 + t] = __halves2half2(__hlt(__low2half(x), __high2half(y)) ? x.x : y.y, __ushort_as_half(__half2ushort_rz(__habs(y.x))));
    out[320 + t] = h2rint(x);
    out[352 + t] = h2tanh_approx(x);
}

extern "C" __global__ void brain_math(const __nv_bfloat162* a, const __nv_bfloat162* b, __nv_bfloat162* out) {
    int t = threadIdx.x;
    __nv_bfloat162 x = a[t], y = b[t];
    out[t] = __hfma2(x, y, __hadd2(x, y));
    out[32 + t] = __hsub2(x, __hmul2(y, y));
    out[64 + t] = __hmax2_nan(x, y);
    out[96 + t] = __floats2bfloat162_rn(__low2float(x) * 1.01f, __high2float(y) / 3.0f);
    out[128 + t] = __hle2(x, y);
    out[160 + t] = __halves2bfloat162(__float2bfloat16_rz(__low2float(x) * 1.01f), __int2bfloat16_rn(t * 1027));
}

extern "C" __global__ void eights(const float2* in, unsigned short* e4m3, unsigned short* e5m2, half2* back, float* sums) {
    int t = threadIdx.x;
    e4m3[t] = __nv_cvt_float2_to_fp8x2(in[t], __NV_SATFINITE, __NV_E4M3);
    e5m2[t] = __nv_cvt_float2_to_fp8x2(in[t], __NV_SATFINITE, __NV_E5M2);
    __half2_raw raw = __nv_cvt_fp8x2_to_halfraw2(e4m3[t], __NV_E4M3);
    half2 low = *(half2*)&raw;
    raw = __nv_cvt_fp8x2_to_halfraw2(e5m2[t], __NV_E5M2);
    back[t] = __hadd2(low, *(half2*)&raw);
    sums[t] = (float)__nv_fp8_e4m3(in[t].x) + (float)__nv_fp8_e5m2(in[t].y);
}
