// Sums of a grid in one pass: the block that finds itself to be the last adds the blocks' parts.
#include <cuda/atomic>

__device__ double warp_sum(double x) {
    for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
    return x;
}

// The sum of the block's values, in every thread of its first warp.
__device__ double block_sum(double x) {
    __shared__ double parts[32];
    x = warp_sum(x);
    __syncthreads();
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
    __syncthreads();
    if (threadIdx.x < 32) x = warp_sum(threadIdx.x < blockDim.x / 32 ? parts[threadIdx.x] : 0);
    return x;
}

__device__ double of_thread(const float* in, int n) {
    double x = 0;
    const float4* four = reinterpret_cast<const float4*>(in);
    int from = blockIdx.x * blockDim.x + threadIdx.x, step = gridDim.x * blockDim.x;
    for (int i = from; i < n / 4; i += step) {
        float4 v = four[i];
        x += double(v.x) + v.y + v.z + v.w;
    }
    if (from < n % 4) x += in[n / 4 * 4 + from];
    return x;
}

__device__ void add_parts(const volatile double* parts, double* out) {
    double x = 0;
    for (int i = threadIdx.x; i < gridDim.x; i += blockDim.x) x += parts[i];
    x = block_sum(x);
    if (threadIdx.x == 0) *out = x;
}

// By a fence of the grid.
extern "C" __global__ void fenced(const float* in, double* parts, unsigned* count, double* out, int n) {
    __shared__ bool last;
    double x = block_sum(of_thread(in, n));
    if (threadIdx.x == 0) {
        parts[blockIdx.x] = x;
        __threadfence();
        last = atomicInc(count, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (last) {
        __threadfence();
        add_parts(parts, out);
    }
}

// By an atomic operation that releases and acquires.
extern "C" __global__ void released(const float* in, double* parts, unsigned* count, double* out, int n) {
    __shared__ bool last;
    double x = block_sum(of_thread(in, n));
    if (threadIdx.x == 0) {
        parts[blockIdx.x] = x;
        cuda::atomic_ref<unsigned, cuda::thread_scope_device> counter(*count);
        last = counter.fetch_add(1, cuda::memory_order_acq_rel) == gridDim.x - 1;
    }
    __syncthreads();
    if (last) add_parts(parts, out);
}
