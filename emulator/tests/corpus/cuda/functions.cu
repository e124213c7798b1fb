// Calls: results and parameters of several kinds, recursion, pointers to functions and to a caller's variables.
struct Pair { int a; double b; };
struct Big { int values[12]; };

__device__ __noinline__ Pair swap_sum(Pair p, int by) { return Pair{(int)p.b + by, p.a + 0.5}; }
__device__ __noinline__ void bump(int* x, int by) { *x += by; }
__device__ __noinline__ int total(Big big) {
    int sum = 0;
    for (int value : big.values) sum = sum * 3 + value;
    return sum;
}
__device__ __noinline__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }

// Each call hands a pointer to a variable of its own to the next one.
__device__ __noinline__ int chain(int depth, int* above) {
    int own = depth * 10;
    if (above) *above += depth;
    if (depth > 0) {
        int below = chain(depth - 1, &own);
        return below + own;
    }
    return own;
}

__device__ __noinline__ bool is_odd(unsigned n);
__device__ __noinline__ bool is_even(unsigned n) { return n == 0 ? true : is_odd(n - 1); }
__device__ __noinline__ bool is_odd(unsigned n) { return n == 0 ? false : is_even(n - 1); }

__device__ __noinline__ int plus(int a, int b) { return a + b; }
__device__ __noinline__ int minus(int a, int b) { return a - b; }
__device__ __noinline__ int times(int a, int b) { return a * b; }
__device__ int (*const operations[3])(int, int) = {plus, minus, times};

extern "C" __global__ void calls(int* out) {
    int t = threadIdx.x;
    Pair p = swap_sum(Pair{t, t * 2.0}, 7);
    int x = p.a * 100 + (int)(p.b * 2);
    bump(&x, t);
    Big big;
    for (int i = 0; i < 12; i++) big.values[i] = t + i;
    out[t] = x;
    out[32 + t] = total(big);
    out[64 + t] = fibonacci(t % 9);
    out[96 + t] = chain(t % 5, nullptr);
    out[128 + t] = is_even(t);
}

extern "C" __global__ void pointers(int* out) {
    int t = threadIdx.x;
    out[t] = operations[t % 3](t, 5);
}
