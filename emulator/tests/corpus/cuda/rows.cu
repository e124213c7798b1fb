// Softmax, LayerNorm and RMSNorm of rows.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

// Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018: maximum and sum in one pass.
struct Online {
    float most, sum;
    __device__ void add(Online other) {
        float larger = fmaxf(most, other.most);
        if (larger == -INFINITY) return;
        sum = sum * __expf(most - larger) + other.sum * __expf(other.most - larger);
        most = larger;
    }
};

extern "C" __global__ void softmax(const __half* in, __half* out, int width) {
    __shared__ Online parts[32];
    const __half* row = in + size_t(blockIdx.x) * width;
    Online all{-INFINITY, 0};
    for (int i = threadIdx.x; i < width; i += blockDim.x) all.add({__half2float(row[i]), 1});
    for (int step = 16; step > 0; step /= 2)
        all.add({__shfl_xor_sync(~0u, all.most, step), __shfl_xor_sync(~0u, all.sum, step)});
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = all;
    __syncthreads();
    all = {-INFINITY, 0};
    for (int w = 0; w < blockDim.x / 32; w++) all.add(parts[w]);
    for (int i = threadIdx.x; i < width; i += blockDim.x)
        out[size_t(blockIdx.x) * width + i] = __float2half(__expf(__half2float(row[i]) - all.most) / all.sum);
}

// Welford, "Note on a method for calculating corrected sums of squares and products", 1962.
struct Moments {
    float count, mean, squares;
    __device__ void add(Moments other) {
        float total = count + other.count;
        if (other.count == 0) return;
        float difference = other.mean - mean;
        mean += difference * other.count / total;
        squares += other.squares + difference * difference * count * other.count / total;
        count = total;
    }
};

// A warp a row, four columns at a time.
extern "C" __global__ void layer_norm(const float4* in, const float4* weight, const float4* bias, float4* out, int rows, int quads,
                                      float epsilon) {
    int row = blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= rows) return;
    in += size_t(row) * quads;
    out += size_t(row) * quads;
    Moments all{};
    for (int i = threadIdx.x; i < quads; i += 32) {
        float4 x = in[i];
        all.add({1, x.x, 0});
        all.add({1, x.y, 0});
        all.add({1, x.z, 0});
        all.add({1, x.w, 0});
    }
    for (int step = 16; step > 0; step /= 2)
        all.add({__shfl_xor_sync(~0u, all.count, step), __shfl_xor_sync(~0u, all.mean, step), __shfl_xor_sync(~0u, all.squares, step)});
    // Combined in another order, each lane's has other roundings: the first one's is everybody's.
    float mean = __shfl_sync(~0u, all.mean, 0);
    float scale = rsqrtf(__shfl_sync(~0u, all.squares, 0) / (4.0f * quads) + epsilon);
    for (int i = threadIdx.x; i < quads; i += 32) {
        float4 x = in[i], w = weight[i], b = bias[i];
        out[i] = {(x.x - mean) * scale * w.x + b.x, (x.y - mean) * scale * w.y + b.y, (x.z - mean) * scale * w.z + b.z,
                  (x.w - mean) * scale * w.w + b.w};
    }
}

// Of x + residual, which is kept, too: pairs of columns, the row in shared memory.
extern "C" __global__ void rms_norm(const __nv_bfloat162* x, __nv_bfloat162* residual, const __nv_bfloat162* weight,
                                    __nv_bfloat162* out, int pairs, float epsilon) {
    extern __shared__ float2 row[];
    __shared__ float parts[32];
    size_t at = size_t(blockIdx.x) * pairs;
    float sum = 0;
    for (int i = threadIdx.x; i < pairs; i += blockDim.x) {
        float2 a = __bfloat1622float2(x[at + i]), b = __bfloat1622float2(residual[at + i]);
        float2 both = {a.x + b.x, a.y + b.y};
        residual[at + i] = __float22bfloat162_rn(both);
        row[i] = both;
        sum += both.x * both.x + both.y * both.y;
    }
    for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(~0u, sum, step);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x < 32) {
        sum = threadIdx.x < blockDim.x / 32 ? parts[threadIdx.x] : 0;
        for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(~0u, sum, step);
        if (threadIdx.x == 0) parts[0] = rsqrtf(sum / (2 * pairs) + epsilon);
    }
    __syncthreads();
    float scale = parts[0];
    for (int i = threadIdx.x; i < pairs; i += blockDim.x) {
        float2 w = __bfloat1622float2(weight[i]);
        out[at + i] = __floats2bfloat162_rn(row[i].x * scale * w.x, row[i].y * scale * w.y);
    }
}
