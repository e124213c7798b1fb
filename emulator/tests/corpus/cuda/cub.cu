// Blocks of CUB: sorts, scans, reductions and histograms of a block.
#include <cub/block/block_histogram.cuh>
#include <cub/block/block_merge_sort.cuh>
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/warp/warp_merge_sort.cuh>

constexpr int THREADS = 64, ITEMS = 2;

extern "C" __global__ void radix_sort(float* keys, int* values) {
    using Sort = cub::BlockRadixSort<float, THREADS, ITEMS, int, 4>;
    __shared__ Sort::TempStorage memory;
    float key[ITEMS];
    int value[ITEMS];
    for (int i = 0; i < ITEMS; i++) {
        key[i] = keys[threadIdx.x * ITEMS + i];
        value[i] = values[threadIdx.x * ITEMS + i];
    }
    Sort(memory).SortDescending(key, value);
    for (int i = 0; i < ITEMS; i++) {
        keys[threadIdx.x * ITEMS + i] = key[i];
        values[threadIdx.x * ITEMS + i] = value[i];
    }
}

extern "C" __global__ void merge_sort(long long* keys) {
    using Sort = cub::BlockMergeSort<long long, THREADS, ITEMS>;
    __shared__ Sort::TempStorage memory;
    long long key[ITEMS];
    for (int i = 0; i < ITEMS; i++) key[i] = keys[threadIdx.x * ITEMS + i];
    Sort(memory).Sort(key, [](long long a, long long b) { return a < b; });
    for (int i = 0; i < ITEMS; i++) keys[threadIdx.x * ITEMS + i] = key[i];
}

extern "C" __global__ void scan_and_reduce(const double* in, double* out, double* most) {
    using Scan = cub::BlockScan<double, THREADS>;
    using Reduce = cub::BlockReduce<double, THREADS>;
    __shared__ union {
        Scan::TempStorage scan;
        Reduce::TempStorage reduce;
    } memory;
    double x = in[threadIdx.x], sum;
    Scan(memory.scan).ExclusiveSum(x, sum);
    out[threadIdx.x] = sum;
    __syncthreads();
    double largest = Reduce(memory.reduce).Reduce(x, [](double a, double b) { return a > b ? a : b; });
    if (threadIdx.x == 0) *most = largest;
}

extern "C" __global__ void histogram(const unsigned char* in, unsigned* out) {
    using Histogram = cub::BlockHistogram<unsigned char, THREADS, ITEMS, 32, cub::BLOCK_HISTO_ATOMIC>;
    __shared__ Histogram::TempStorage memory;
    __shared__ unsigned bins[32];
    unsigned char x[ITEMS];
    for (int i = 0; i < ITEMS; i++) x[i] = in[threadIdx.x * ITEMS + i];
    Histogram(memory).Histogram(x, bins);
    __syncthreads();
    if (threadIdx.x < 32) out[threadIdx.x] = bins[threadIdx.x];
}
