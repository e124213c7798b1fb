// Variables of the module: initialisers, addresses of other variables, what one launch leaves for the next.
struct Entry { const char* name; float weight; short code; };

__device__ int counters[4] = {10, 20, 30};
__device__ double origin = -2.5;
__device__ int* cursor = &counters[2];
__constant__ float weights[3] = {0.5f, 1.5f, -3.0f};
__device__ const char* const words[] = {"one", "three", "fifteen"};
__device__ Entry table[2] = {{"left", 1.25f, 3}, {"right", -4.0f, -5}};
__device__ float4 unset;

__device__ int length(const char* text) {
    int n = 0;
    while (text[n]) n++;
    return n;
}

extern "C" __global__ void read(float* out) {
    int t = threadIdx.x;
    if (t < 3) out[t] = weights[t] * length(words[t]);
    if (t < 2) out[3 + t] = table[t].weight + table[t].code + length(table[t].name);
    if (t == 0) {
        *cursor += 5;
        cursor++;
        out[5] = origin + counters[2] + counters[3];
        out[6] = unset.x + unset.w;
        unset.w = 8;
        __shared__ int shared_table[4];
        shared_table[out[6] > 0] = 4;
        out[7] = shared_table[out[6] > 0];
    }
}
