// Attention with an online softmax, keys and values by cp.async in two buffers: Dao et al., "FlashAttention", 2022.
#include <cuda_fp16.h>
#include <cuda_pipeline.h>

// Queries and keys of a tile, columns of the heads, threads: four for each query.
constexpr int M = 32, N = 32, D = 32, THREADS = 128;

__device__ void fetch(__half (*to)[D + 8], const __half* from, int first, int rows) {
    for (int i = threadIdx.x; i < N * D / 8; i += THREADS) {
        int row = i / (D / 8), column = i % (D / 8) * 8;
        // What is outside is zeros.
        int outside = first + row < rows ? 0 : 16;
        __pipeline_memcpy_async(&to[row][column], from + size_t(outside ? 0 : first + row) * D + column, 16, outside);
    }
}

extern "C" __global__ void attention(const __half* q, const __half* k, const __half* v, __half* o, int queries, int keys, float scale,
                                     int causal) {
    __shared__ __align__(16) __half ks[2][N][D + 8], vs[2][N][D + 8];
    size_t head = blockIdx.y;
    q += head * queries * D, o += head * queries * D, k += head * keys * D, v += head * keys * D;
    // A thread has a query's product with each fourth key, and 16 columns of the result.
    int row = blockIdx.x * M + threadIdx.x / 4, part = threadIdx.x % 4;
    // The last query sees the last key.
    int shift = keys - queries;
    int end = causal ? min(keys, int(blockIdx.x + 1) * M + shift) : keys;
    float query[D], sum[D / 4] = {}, most = -INFINITY, total = 0;
    for (int d = 0; d < D; d++) query[d] = row < queries ? __half2float(q[size_t(row) * D + d]) * scale : 0;
    fetch(ks[0], k, 0, keys);
    fetch(vs[0], v, 0, keys);
    __pipeline_commit();
    for (int first = 0, buffer = 0; first < end; first += N, buffer ^= 1) {
        if (first + N < end) {
            fetch(ks[buffer ^ 1], k, first + N, keys);
            fetch(vs[buffer ^ 1], v, first + N, keys);
        }
        __pipeline_commit();
        __pipeline_wait_prior(1);
        __syncthreads();
        float score[N / 4], larger = most;
#pragma unroll 1
        for (int j = 0; j < N / 4; j++) {
            int key = 4 * j + part;
            float s = 0;
            for (int d = 0; d < D; d += 2) {
                float2 two = __half22float2(*reinterpret_cast<__half2*>(&ks[buffer][key][d]));
                s += query[d] * two.x + query[d + 1] * two.y;
            }
            bool seen = first + key < keys && (!causal || first + key <= row + shift);
            score[j] = seen ? s : -INFINITY;
            larger = fmaxf(larger, score[j]);
        }
        larger = fmaxf(larger, __shfl_xor_sync(~0u, larger, 1));
        larger = fmaxf(larger, __shfl_xor_sync(~0u, larger, 2));
        float older = most == -INFINITY ? 0 : __expf(most - larger);
        most = larger;
        total *= older;
        for (int d = 0; d < D / 4; d++) sum[d] *= older;
#pragma unroll 1
        for (int j = 0; j < N / 4; j++) {
            float p = score[j] == -INFINITY ? 0 : __expf(score[j] - most);
            total += p;
            for (int other = 0; other < 4; other++) {
                float weight = __shfl_sync(~0u, p, other, 4);
                for (int d = 0; d < D / 4; d++)
                    sum[d] += weight * __half2float(vs[buffer][4 * j + other][part * (D / 4) + d]);
            }
        }
        __syncthreads();
    }
    total += __shfl_xor_sync(~0u, total, 1);
    total += __shfl_xor_sync(~0u, total, 2);
    if (row < queries)
        for (int d = 0; d < D / 4; d++) o[size_t(row) * D + part * (D / 4) + d] = __float2half(sum[d] / total);
}
