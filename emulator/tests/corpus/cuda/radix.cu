// A radix sort, least digit first: three kernels for each digit of four bits. Satish, Harris and Garland, "Designing Efficient Sorting
// Algorithms for Manycore GPUs", 2009; ranks within a warp by those lanes that have the same digit.

constexpr int THREADS = 256, WARPS = THREADS / 32, DIGITS = 16;

// How often each block has each digit: digit-major.
extern "C" __global__ void count(const unsigned* keys, unsigned* counts, int n, int shift) {
    __shared__ unsigned bins[DIGITS];
    if (threadIdx.x < DIGITS) bins[threadIdx.x] = 0;
    __syncthreads();
    int i = blockIdx.x * THREADS + threadIdx.x;
    if (i < n) atomicAdd(&bins[keys[i] >> shift & 15], 1);
    __syncthreads();
    if (threadIdx.x < DIGITS) counts[threadIdx.x * gridDim.x + blockIdx.x] = bins[threadIdx.x];
}

// An exclusive scan of the counts, in place, by one block.
extern "C" __global__ void offsets(unsigned* counts, int n) {
    __shared__ unsigned totals[32];
    unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, before = 0;
    for (int base = 0; base < n; base += blockDim.x) {
        int i = base + threadIdx.x;
        unsigned own = i < n ? counts[i] : 0, x = own;
        for (unsigned step = 1; step < 32; step *= 2) {
            unsigned other = __shfl_up_sync(~0u, x, step);
            if (lane >= step) x += other;
        }
        if (lane == 31) totals[warp] = x;
        __syncthreads();
        unsigned sum = 0, all = 0;
        for (unsigned w = 0; w < blockDim.x / 32; w++) {
            if (w < warp) sum += totals[w];
            all += totals[w];
        }
        if (i < n) counts[i] = before + sum + x - own;
        before += all;
        __syncthreads();
    }
}

// Each key with its value goes where its digit's keys of its block go, in their order.
extern "C" __global__ void scatter(const unsigned* keys, const unsigned* values, const unsigned* offsets, unsigned* keys_out,
                                   unsigned* values_out, int n, int shift) {
    __shared__ unsigned bins[WARPS][DIGITS];
    unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if (lane < DIGITS) bins[warp][lane] = 0;
    __syncwarp();
    int i = blockIdx.x * THREADS + threadIdx.x;
    unsigned key = i < n ? keys[i] : ~0u, digit = key >> shift & 15;
    unsigned same = __match_any_sync(~0u, digit), rank = __popc(same & ((1u << lane) - 1));
    if (rank == 0) bins[warp][digit] = __popc(same);
    __syncthreads();
    if (threadIdx.x < DIGITS) {
        unsigned at = offsets[threadIdx.x * gridDim.x + blockIdx.x];
        for (int w = 0; w < WARPS; w++) {
            unsigned count = bins[w][threadIdx.x];
            bins[w][threadIdx.x] = at;
            at += count;
        }
    }
    __syncthreads();
    if (i < n) {
        unsigned at = bins[warp][digit] + rank;
        keys_out[at] = key;
        values_out[at] = values[i];
    }
}
