// A product of matrices: cp.async, ldmatrix and mma.sync written by hand.
#include <cuda_fp16.h>
#include <cuda_pipeline.h>

// C (f32, 16 x 8) = A (16 x depth) * B (depth x 8): a warp.
extern "C" __global__ void product(const half* a, const half* b, float* c, int depth) {
    __shared__ __align__(128) half left[2][16 * 16];
    __shared__ __align__(128) half right[2][16 * 8];
    int lane = threadIdx.x;
    float d[4] = {};
    auto load = [&](int stage, int k) {
        __pipeline_memcpy_async(&left[stage][lane * 8], a + lane / 2 * depth + k + lane % 2 * 8, 16);
        if (lane < 16) __pipeline_memcpy_async(&right[stage][lane * 8], b + (k + lane) * 8, 16);
        __pipeline_commit();
    };
    load(0, 0);
    for (int k = 0; k < depth; k += 16) {
        int stage = k / 16 % 2;
        if (k + 16 < depth) {
            load(1 - stage, k + 16);
            __pipeline_wait_prior(1);
        } else {
            __pipeline_wait_prior(0);
        }
        __syncwarp();
        unsigned x[4], y[2];
        unsigned at = (unsigned)__cvta_generic_to_shared(&left[stage][lane % 16 * 16 + lane / 16 * 8]);
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"(at));
        at = (unsigned)__cvta_generic_to_shared(&right[stage][lane % 16 * 8]);
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                     : "=r"(y[0]), "=r"(y[1]) : "r"(at));
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                     "{%0, %1, %2, %3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
        __syncwarp();
    }
    for (int i = 0; i < 4; i++) c[(lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2] = d[i];
}

// The same of bytes, depth 32 at a time, from global memory.
extern "C" __global__ void bytes(const unsigned* a, const unsigned* b, int* c, int depth) {
    int lane = threadIdx.x, row = lane / 4, words = depth / 4;
    int d[4] = {};
    for (int k = 0; k < words; k += 8) {
        unsigned x[4], y[2];
        for (int i = 0; i < 4; i++) x[i] = a[(row + i % 2 * 8) * words + k + i / 2 * 4 + lane % 4];
        for (int i = 0; i < 2; i++) y[i] = b[row * words + k + i * 4 + lane % 4];
        asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                     "{%0, %1, %2, %3};"
                     : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
                     : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
    }
    for (int i = 0; i < 4; i++) c[(lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2] = d[i];
}
