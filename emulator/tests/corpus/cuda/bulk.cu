// Bulk copies of sm_90 with barriers that count bytes.
#include <cuda/barrier>
#include <cuda/ptx>
namespace ptx = cuda::ptx;

// Barriers in shared memory are not initialised where they are declared.
#pragma nv_diag_suppress static_var_with_dynamic_init

constexpr int TILE = 256, STAGES = 2;
using Barrier = cuda::barrier<cuda::thread_scope_block>;

// out = 2 in + 1, a tile at a time: loads run ahead, stores behind.
extern "C" __global__ void stream(const float* in, float* out, int tiles) {
    __shared__ alignas(128) float loaded[STAGES][TILE], stored[STAGES][TILE];
    __shared__ Barrier full[STAGES];
    Barrier::arrival_token token[STAGES];
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; stage++) init(&full[stage], blockDim.x);
        ptx::fence_proxy_async(ptx::space_shared);
    }
    __syncthreads();
    auto load = [&](int tile) {
        int stage = tile % STAGES;
        if (threadIdx.x == 0) {
            cuda::device::memcpy_async_tx(loaded[stage], in + tile * TILE, cuda::aligned_size_t<16>(sizeof(loaded[0])), full[stage]);
            token[stage] = cuda::device::barrier_arrive_tx(full[stage], 1, sizeof(loaded[0]));
        } else {
            token[stage] = full[stage].arrive();
        }
    };
    for (int tile = 0; tile < STAGES && tile < tiles; tile++) load(tile);
    for (int tile = 0; tile < tiles; tile++) {
        int stage = tile % STAGES;
        full[stage].wait(std::move(token[stage]));
        // What was stored from here two tiles ago has been read.
        if (threadIdx.x == 0) ptx::cp_async_bulk_wait_group_read(ptx::n32_t<STAGES - 1>());
        __syncthreads();
        for (int i = threadIdx.x; i < TILE; i += blockDim.x) stored[stage][i] = 2 * loaded[stage][i] + 1;
        ptx::fence_proxy_async(ptx::space_shared);
        __syncthreads();
        if (threadIdx.x == 0) {
            ptx::cp_async_bulk(ptx::space_global, ptx::space_shared, out + tile * TILE, stored[stage], sizeof(stored[0]));
            ptx::cp_async_bulk_commit_group();
        }
        if (tile + STAGES < tiles) load(tile + STAGES);
    }
    if (threadIdx.x == 0) ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>());
}

// Sums of the blocks' tiles, added in global memory by the copy.
extern "C" __global__ void add(const int* in, int* out) {
    __shared__ alignas(128) int tile[TILE];
    for (int i = threadIdx.x; i < TILE; i += blockDim.x) tile[i] = in[blockIdx.x * TILE + i] * (i + 1);
    ptx::fence_proxy_async(ptx::space_shared);
    __syncthreads();
    if (threadIdx.x == 0) {
        ptx::cp_reduce_async_bulk(ptx::space_global, ptx::space_shared, ptx::op_add, out, tile, sizeof(tile));
        ptx::cp_async_bulk_commit_group();
        ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>());
    }
}
