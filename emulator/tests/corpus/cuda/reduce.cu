// Sums of a block, through shuffles and shared memory; maxima of the grid, through an atomic operation.
#include <climits>

__device__ float warp_sum(float x) {
    for (int step = 16; step > 0; step /= 2) x += __shfl_down_sync(0xffffffffu, x, step);
    return x;
}

extern "C" __global__ void block_sums(const float* in, float* out, int n) {
    __shared__ float sums[32];
    float x = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) x += in[i];
    x = warp_sum(x);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = x;
    __syncthreads();
    if (threadIdx.x < 32) {
        x = threadIdx.x < blockDim.x / 32 ? sums[threadIdx.x] : 0;
        x = warp_sum(x);
        if (threadIdx.x == 0) out[blockIdx.x] = x;
    }
}

extern "C" __global__ void maximum(const int* in, int* out, int n) {
    int most = INT_MIN;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) most = max(most, in[i]);
    most = __reduce_max_sync(0xffffffffu, most);
    if (threadIdx.x % 32 == 0) atomicMax(out, most);
}
