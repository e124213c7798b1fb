// Votes, matches, reductions of a warp, barriers that reduce, special registers.
extern "C" __global__ void warps(const int* in, unsigned* out) {
    int t = threadIdx.x, x = in[t], n = blockDim.x;
    out[t] = __ballot_sync(0xffffffffu, x > 5) ^ __any_sync(0xffffffffu, x == 9) ^ (__all_sync(0xffffffffu, x < 50) << 1);
    out[n + t] = __match_any_sync(0xffffffffu, x);
    int same;
    out[2 * n + t] = __match_all_sync(0xffffffffu, x / 100, &same) + same;
    out[3 * n + t] = __reduce_add_sync(0xffffffffu, x) ^ __reduce_xor_sync(0xffffffffu, (unsigned)x << 8);
    out[4 * n + t] = __shfl_xor_sync(0xffffffffu, x, 5) * 1000 + __shfl_sync(0xffffffffu, x, t / 2, 8);
    out[5 * n + t] = __syncthreads_count(x & 1) * 4 + __syncthreads_and(x >= 0) * 2 + __syncthreads_or(x == 1234);
    if (x & 1) out[6 * n + t] = __activemask();
    else out[6 * n + t] = __match_any_sync(__activemask(), (long long)x << 33);
    __syncwarp();
    unsigned lane, below, size;
    asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
    asm volatile("mov.u32 %0, %%lanemask_lt;" : "=r"(below));
    asm volatile("mov.u32 %0, %%total_smem_size;" : "=r"(size));
    long long before = clock64();
    __nanosleep(20);
    bool later = clock64() >= before;
    out[7 * n + t] = lane + __popc(below) * 100 + later * 10000 + __isGlobal(out) * 100000 + __isShared(out) * 1000000
        + (size > 0) * 2000000;
}
