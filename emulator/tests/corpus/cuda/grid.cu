// Barriers of a whole grid: cooperative groups.
#include <cooperative_groups.h>
namespace groups = cooperative_groups;

constexpr int BINS = 64;

// Puts bytes below 64 in order: a histogram, a scan of it, and each byte to its place.
extern "C" __global__ void sort_bytes(const unsigned char* in, unsigned* bins, unsigned char* out, int n) {
    auto grid = groups::this_grid();
    __shared__ unsigned own[BINS];
    for (int i = grid.thread_rank(); i < BINS; i += grid.size()) bins[i] = 0;
    for (int i = threadIdx.x; i < BINS; i += blockDim.x) own[i] = 0;
    grid.sync();
    for (int i = grid.thread_rank(); i < n; i += grid.size()) atomicAdd(&own[in[i] % BINS], 1);
    __syncthreads();
    for (int i = threadIdx.x; i < BINS; i += blockDim.x)
        if (own[i]) atomicAdd(&bins[i], own[i]);
    grid.sync();
    if (grid.thread_rank() == 0) {
        unsigned before = 0;
        for (int i = 0; i < BINS; i++) {
            unsigned count = bins[i];
            bins[i] = before;
            before += count;
        }
    }
    grid.sync();
    for (int i = grid.thread_rank(); i < n; i += grid.size()) out[atomicAdd(&bins[in[i] % BINS], 1)] = in[i];
}

// Arrives, does something of its own, and waits.
extern "C" __global__ void split(int* a, int* b) {
    auto grid = groups::this_grid();
    unsigned i = grid.thread_rank(), n = grid.size();
    a[i] = int(i) * 3;
    auto token = grid.barrier_arrive();
    int own = int(i) * 1000;
    grid.barrier_wait(std::move(token));
    b[i] = own + a[(i + 40) % n];
}
