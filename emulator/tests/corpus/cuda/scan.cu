// An inclusive scan of a block of up to 1024 threads.
extern "C" __global__ void scan(const unsigned* in, unsigned* out) {
    __shared__ unsigned totals[32];
    unsigned lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    unsigned x = in[threadIdx.x];
#pragma unroll
    for (unsigned step = 1; step < 32; step *= 2) {
        unsigned other = __shfl_up_sync(0xffffffffu, x, step);
        if (lane >= step) x += other;
    }
    if (lane == 31) totals[warp] = x;
    __syncthreads();
    if (warp == 0) {
        unsigned total = lane < blockDim.x / 32 ? totals[lane] : 0;
        for (unsigned step = 1; step < 32; step *= 2) {
            unsigned other = __shfl_up_sync(0xffffffffu, total, step);
            if (lane >= step) total += other;
        }
        totals[lane] = total;
    }
    __syncthreads();
    out[threadIdx.x] = x + (warp > 0 ? totals[warp - 1] : 0);
}
