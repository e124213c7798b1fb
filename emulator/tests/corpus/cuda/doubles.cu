// Arithmetic of f64, and the functions of the mathematical library.
extern "C" __global__ void doubles(const double* in, double* out) {
    int t = threadIdx.x;
    double x = in[t], y = in[t + 1];
    out[t] = x * y + x / y - sqrt(fabs(x));
    out[32 + t] = fma(x, y, fmin(x, y));
    out[64 + t] = __dadd_rz(x, y) + __dmul_ru(x, y);
    out[96 + t] = floor(x * 10) + rint(y) + trunc(x) + ceil(y);
    out[128 + t] = exp(x) + log(fabs(y) + 1);
    out[160 + t] = sin(x) * cos(y);
    out[192 + t] = (double)(float)x + (double)(long long)(y * 1e6) + (double)__double2uint_rn(fabs(x)) + (int)y;
    out[224 + t] = pow(fabs(x) + 0.5, y * 0.25);
    out[256 + t] = copysign(x, -y) + fmod(x * 100, 7.0) + rsqrt(fabs(y) + 1);
}

