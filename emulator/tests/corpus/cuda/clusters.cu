// What the blocks of a cluster do together in each other's shared memory.
#include <cooperative_groups.h>
namespace groups = cooperative_groups;

constexpr int BINS = 64;

// A histogram whose bins are divided among the blocks of a cluster.
extern "C" __global__ void __cluster_dims__(4, 1, 1) histogram(const unsigned char* in, unsigned* out, int n) {
    auto cluster = groups::this_cluster();
    __shared__ unsigned bins[BINS];
    for (int i = threadIdx.x; i < BINS; i += blockDim.x) bins[i] = 0;
    cluster.sync();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        unsigned value = in[i];
        unsigned* there = cluster.map_shared_rank(bins, value / BINS);
        atomicAdd(there + value % BINS, 1);
    }
    cluster.sync();
    for (int i = threadIdx.x; i < BINS; i += blockDim.x)
        if (bins[i]) atomicAdd(&out[cluster.block_rank() * BINS + i], bins[i]);
}

// Each block sums a part; the first adds the parts of all, and each reads it from there.
extern "C" __global__ void __cluster_dims__(8, 1, 1) normalize(const float* in, float* out, int n) {
    auto cluster = groups::this_cluster();
    __shared__ float warps[32], total;
    int rank = cluster.block_rank(), first = blockIdx.x / 8 * n;
    float sum = 0;
    for (int i = rank * blockDim.x + threadIdx.x; i < n; i += 8 * blockDim.x) sum += in[first + i];
    for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(~0u, sum, step);
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        total = 0;
        for (int w = 0; w < blockDim.x / 32; w++) total += warps[w];
    }
    cluster.sync();
    float all = 0;
    for (int other = 0; other < 8; other++) all += *cluster.map_shared_rank(&total, other);
    for (int i = rank * blockDim.x + threadIdx.x; i < n; i += 8 * blockDim.x) out[first + i] = in[first + i] / all;
    // A block must not end while others read its shared memory.
    cluster.sync();
}

// Each block hands its neighbour a value through an arrival that releases and a wait that acquires.
extern "C" __global__ void __cluster_dims__(2, 1, 1) exchange(const int* in, int* out) {
    auto cluster = groups::this_cluster();
    __shared__ int box[64];
    int* there = cluster.map_shared_rank(box, cluster.block_rank() ^ 1);
    // The other has begun.
    cluster.sync();
    there[threadIdx.x] = in[blockIdx.x * 64 + threadIdx.x];
    auto token = cluster.barrier_arrive();
    int own = in[blockIdx.x * 64 + threadIdx.x] * 2;
    cluster.barrier_wait(std::move(token));
    out[blockIdx.x * 64 + threadIdx.x] = own + box[63 - threadIdx.x];
}
