// Cooperative groups: tiles of a block, coalesced threads, a reduction.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace groups = cooperative_groups;

extern "C" __global__ void tiles(const int* in, int* out) {
    auto block = groups::this_thread_block();
    auto tile = groups::tiled_partition<8>(block);
    int x = in[block.thread_rank()];
    int sum = groups::reduce(tile, x, groups::plus<int>());
    int before = tile.shfl_up(x, 1);
    out[block.thread_rank()] = sum * 100 + (tile.thread_rank() ? before : 0);
    block.sync();
    if (x & 1) {
        auto odd = groups::coalesced_threads();
        out[256 + block.thread_rank()] = odd.thread_rank() * 1000 + odd.size();
    } else {
        auto even = groups::coalesced_threads();
        out[256 + block.thread_rank()] = even.any(x > 90) ? -1 : -2;
    }
}

extern "C" __global__ void filter(const int* in, int* out, int* count, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && in[i] % 3 == 0) {
        auto taken = groups::coalesced_threads();
        int at = 0;
        if (taken.thread_rank() == 0) at = atomicAdd(count, (int)taken.size());
        out[taken.shfl(at, 0) + taken.thread_rank()] = in[i];
    }
}
