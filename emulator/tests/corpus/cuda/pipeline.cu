// Products of matrices whose tiles come by cp.async, in three buffers.
#include <cuda/pipeline>
#include <cooperative_groups.h>
#include <cuda_pipeline.h>

// Barriers in shared memory are not initialised where they are declared.
#pragma nv_diag_suppress static_var_with_dynamic_init

constexpr int M = 32, N = 32, K = 16, STAGES = 3, THREADS = 64;

struct Tiles {
    float a[STAGES][M][K + 4], b[STAGES][K][N];
};

// Each thread has 4 times 4 elements.
__device__ void multiply(const Tiles& tiles, int stage, float (&sum)[4][4]) {
    int row = threadIdx.x / 8 * 4, column = threadIdx.x % 8 * 4;
    for (int k = 0; k < K; k++)
        for (int i = 0; i < 4; i++)
            for (int j = 0; j < 4; j++) sum[i][j] += tiles.a[stage][row + i][k] * tiles.b[stage][k][column + j];
}

__device__ void store(float* c, int n, const float (&sum)[4][4]) {
    int row = blockIdx.y * M + threadIdx.x / 8 * 4, column = blockIdx.x * N + threadIdx.x % 8 * 4;
    for (int i = 0; i < 4; i++)
        *reinterpret_cast<float4*>(&c[size_t(row + i) * n + column]) = {sum[i][0], sum[i][1], sum[i][2], sum[i][3]};
}

// By groups of copies, each thread its own, and a barrier.
extern "C" __global__ void by_groups(const float* a, const float* b, float* c, int n, int k) {
    extern __shared__ __align__(16) unsigned char memory[];
    Tiles& tiles = *reinterpret_cast<Tiles*>(memory);
    auto fetch = [&](int first) {
        if (first < k) {
            int stage = first / K % STAGES;
            for (int i = threadIdx.x; i < M * K / 4; i += THREADS) {
                int row = i / (K / 4), column = i % (K / 4) * 4;
                __pipeline_memcpy_async(&tiles.a[stage][row][column], a + size_t(blockIdx.y * M + row) * k + first + column, 16);
            }
            for (int i = threadIdx.x; i < K * N / 4; i += THREADS) {
                int row = i / (N / 4), column = i % (N / 4) * 4;
                __pipeline_memcpy_async(&tiles.b[stage][row][column], b + size_t(first + row) * n + blockIdx.x * N + column, 16);
            }
        }
        __pipeline_commit();
    };
    float sum[4][4] = {};
    for (int stage = 0; stage < STAGES - 1; stage++) fetch(stage * K);
    for (int first = 0; first < k; first += K) {
        __pipeline_wait_prior(STAGES - 2);
        __syncthreads();
        fetch(first + (STAGES - 1) * K);
        multiply(tiles, first / K % STAGES, sum);
    }
    store(c, n, sum);
}

// By libcu++'s pipeline of a block, whose stages are barriers in shared memory: the first warp copies, the second multiplies for
// the columns of both.
extern "C" __global__ void by_stages(const float* in, float* out, int count) {
    namespace groups = cooperative_groups;
    __shared__ float tiles[2][THREADS];
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
    auto block = groups::this_thread_block();
    auto role = threadIdx.x < 32 ? cuda::pipeline_role::producer : cuda::pipeline_role::consumer;
    auto pipeline = cuda::make_pipeline(block, &state, role);
    auto copiers = groups::tiled_partition<32>(block);
    float sum = 0;
    for (int tile = 0; tile < count; tile++) {
        if (role == cuda::pipeline_role::producer) {
            pipeline.producer_acquire();
            cuda::memcpy_async(copiers, tiles[tile % 2], in + tile * THREADS, sizeof(tiles[0]), pipeline);
            pipeline.producer_commit();
        } else {
            pipeline.consumer_wait();
            sum += tiles[tile % 2][threadIdx.x % 32] * 2 + tiles[tile % 2][threadIdx.x % 32 + 32];
            pipeline.consumer_release();
        }
    }
    if (role == cuda::pipeline_role::consumer) out[threadIdx.x % 32] = sum;
    pipeline.quit();
}
