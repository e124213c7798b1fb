//! The kernels that are compiled.

use tilewright_device::tile::{Overlapped, Simt, Spread};
use tilewright_device::{bf16, f16, kernels};

use crate::described::RowsKernel;
use crate::loss_held::{cross_entropy_held, cross_entropy_ragged};
use crate::loss_rows::{cross_entropy, cross_entropy_long};
use crate::masked_rows::{masked_softmax, masked_softmax_held, masked_softmax_long, masked_softmax_ragged};
use crate::norm_rows::{norm, norm_long};
use crate::norms_held::{norm_alike, norm_held, norm_ragged};
use crate::program::{Added, NextTile, NoResidual, Nothing, OneTile};
use crate::softmax_rows::{softmax, softmax_held, softmax_long, softmax_ragged};

// Warps, threads of a row, elements of a thread; rows and columns of a tile. Rows of up to 1024 elements are a warp's or a part of it;
// longer ones a CTA's, then a cluster's.
#[rustfmt::skip]
kernels! {
    /// The kernels of softmax and log-softmax.
    pub static SOFTMAX: RowsKernel;

    let RAGGED_HALVES = [
        (4, 8, 32, 16, 256), (4, 32, 16, 4, 512), (4, 32, 40, 4, 1280), (4, 64, 40, 2, 2560), (4, 128, 40, 1, 5120), (8, 256, 24, 1, 6144),
        (8, 256, 40, 1, 10240),
    ];
    let RAGGED_F32 = [
        (4, 8, 16, 16, 128), (4, 32, 24, 4, 768), (4, 64, 24, 2, 1536), (4, 128, 24, 1, 3072), (8, 256, 24, 1, 6144),
    ];
    for (T, VECTOR, ANYWHERE, EACH, WIDEST) in
        [(f16, 8, RAGGED_HALVES, 64, 16384), (bf16, 8, RAGGED_HALVES, 64, 16384), (f32, 4, RAGGED_F32, 32, 8192)]
    {
        for (W, G, E, M, N) in ANYWHERE {
            sm_90: [softmax_sm_90_ T _ragged_ M x N]: softmax_ragged<Overlapped<W>, T, Spread<W, G, E, VECTOR>, M, N, 1>;
        }
        for CTAS in [1, 2, 4, 8] {
            sm_90: [softmax_sm_90_ T _ragged_1x WIDEST c CTAS]: softmax_ragged<Overlapped<8>, T, Spread<8, 256, EACH, VECTOR>, 1, WIDEST, CTAS>;
        }
    }
    for (T, VECTOR, E, N) in [(f16, 8, 64, 16384), (bf16, 8, 64, 16384), (f32, 4, 32, 8192)] {
        for CTAS in [1, 2, 4, 8] {
            sm_90: [softmax_sm_90_ T _1x N once CTAS]: softmax<Overlapped<8>, OneTile, T, Spread<8, 256, E, VECTOR>, 1, N, CTAS>;
        }
    }

    let OF_HALVES = [
        (4, 8, 16, 16, 128, NextTile), (4, 8, 32, 16, 256, NextTile), (4, 32, 32, 4, 1024, OneTile), (4, 64, 64, 2, 4096, OneTile),
        (8, 256, 32, 1, 8192, OneTile), (16, 512, 32, 1, 16384, OneTile),
    ];
    let OF_F32 = [
        (4, 8, 16, 16, 128, NextTile), (4, 8, 32, 16, 256, NextTile), (4, 32, 32, 4, 1024, NextTile), (4, 128, 32, 1, 4096, NextTile),
        (8, 256, 32, 1, 8192, NextTile), (16, 512, 32, 1, 16384, NextTile),
    ];
    for (T, VECTOR, ONE_CTA, HELD) in [(f16, 8, OF_HALVES, [4]), (bf16, 8, OF_HALVES, [4]), (f32, 4, OF_F32, [4, 8])]
    {
        for (W, G, E, M, N, F) in ONE_CTA {
            sm_90: [softmax_sm_90_ T _ M x N]: softmax<Overlapped<W>, F, T, Spread<W, G, E, VECTOR>, M, N, 1>;
            sm_80: [softmax_sm_80_ T _ M x N]: softmax<Simt<W>, F, T, Spread<W, G, E, VECTOR>, M, N, 1>;
        }
        sm_90: [softmax_sm_90_ T _1x16384c8]:
            softmax<Overlapped<16>, NextTile, T, Spread<16, 512, 32, VECTOR>, 1, 16384, 8>;
        // Shared memory has room for 13 parts of 16 KiB.
        for CTAS in HELD {
            sm_90: [softmax_sm_90_ T _held CTAS]:
                softmax_held<Overlapped<16>, T, Spread<16, 512, { 2 * VECTOR }, VECTOR>, { 1024 * VECTOR }, CTAS, 13, false>;
        }
        sm_80: [softmax_sm_80_ T _long]: softmax_long<Simt<8>, T, Spread<8, 256, 32, VECTOR>, 1, 8192>;
        sm_80: [softmax_sm_80_ T _any]: softmax_long<Simt<8>, T, Spread<8, 256, 16, 1>, 1, 4096>;
    }
    // For rows that fill the next wider tile badly.
    for (T, W, G, N) in [(f16, 8, 256, 6144), (bf16, 8, 256, 6144), (f16, 16, 512, 12288), (bf16, 16, 512, 12288)] {
        sm_90: [softmax_sm_90_ T _1x N]: softmax<Overlapped<W>, OneTile, T, Spread<W, G, 24, 8>, 1, N, 1>;
    }
}

#[rustfmt::skip]
kernels! {
    /// The kernels of softmax and log-softmax of masked rows.
    pub static MASKED_SOFTMAX: RowsKernel;

    let ONE_CTA = [(4, 8, 32, 16, 256), (4, 32, 32, 4, 1024), (4, 128, 32, 1, 4096), (8, 256, 32, 1, 8192)];
    for (T, VECTOR) in [(f16, 8), (bf16, 8), (f32, 4)] {
        for (W, G, E, M, N) in ONE_CTA {
            sm_90: [masked_softmax_sm_90_ T _ M x N]: masked_softmax<Overlapped<W>, T, Spread<W, G, E, VECTOR>, M, N, 1>;
            sm_80: [masked_softmax_sm_80_ T _ M x N]: masked_softmax<Simt<W>, T, Spread<W, G, E, VECTOR>, M, N, 1>;
        }
        for CTAS in [1, 2, 4, 8] {
            sm_90: [masked_softmax_sm_90_ T _1x16384c CTAS]:
                masked_softmax<Overlapped<16>, T, Spread<16, 512, 32, VECTOR>, 1, 16384, CTAS>;
        }
        sm_90: [masked_softmax_sm_90_ T _ragged]:
            masked_softmax_held<Overlapped<16>, T, Spread<16, 512, VECTOR, VECTOR>, { 512 * VECTOR }, 13>;
        sm_90: [masked_softmax_sm_90_ T _ragged_short]:
            masked_softmax_held<Overlapped<1>, T, Spread<1, 32, { 2 * VECTOR }, VECTOR>, { 64 * VECTOR }, 5>;
        sm_80: [masked_softmax_sm_80_ T _long]: masked_softmax_long<Simt<8>, T, Spread<8, 256, 16, VECTOR>, 1, 4096>;
        sm_80: [masked_softmax_sm_80_ T _any]: masked_softmax_long<Simt<8>, T, Spread<8, 256, 16, 1>, 1, 4096>;
    }
    for (T, W, G, E, VECTOR, N, RESIDENT) in [
        (f16, 4, 128, 40, 8, 5120, 768), (f16, 8, 256, 40, 8, 10240, 768), (bf16, 4, 128, 40, 8, 5120, 640), (bf16, 8, 256, 40, 8, 10240, 512),
        (f32, 8, 256, 36, 4, 9216, 512),
    ] {
        sm_90: [masked_softmax_sm_90_ T _ragged_1x N]: masked_softmax_ragged<Overlapped<W>, T, Spread<W, G, E, VECTOR>, N, RESIDENT>;
    }
    // Element by element, of rows that begin anywhere, with something between them.
    for T in [f16, bf16, f32] {
        sm_80: [masked_softmax_sm_80_ T _4x1024any]: masked_softmax<Simt<4>, T, Spread<4, 32, 32, 1>, 4, 1024, 1>;
    }
}

// Of f32 a CTA of 512 threads has no registers for a tile ahead. One tile a CTA is what an H200 runs faster: f16 and bf16 rows of softmax from
// 1024 columns on (5 to 11 %), norms and cross-entropy at 1024 and 8192 (4 to 20 %), norms of sums (5 to 7 %); not norms at 4096. Few rows of
// weighted norms are sooner done by CTAs that load the weights first (2.5 for 3.0 µs).
#[rustfmt::skip]
kernels! {
    /// The kernels of RMSNorm and LayerNorm.
    pub static NORM: RowsKernel;

    let RAGGED_HALVES = [
        (4, 8, 32, 16, 256), (4, 128, 40, 1, 5120), (8, 256, 24, 1, 6144), (8, 256, 40, 1, 10240),
    ];
    let RAGGED_F32 = [
        (4, 8, 16, 16, 128), (4, 32, 24, 4, 768), (4, 64, 24, 2, 1536), (4, 128, 24, 1, 3072), (8, 256, 24, 1, 6144),
    ];
    for (T, VECTOR, ANYWHERE, EACH, WIDEST) in
        [(f16, 8, RAGGED_HALVES, 64, 16384), (bf16, 8, RAGGED_HALVES, 64, 16384), (f32, 4, RAGGED_F32, 32, 8192)]
    {
        for (W, G, E, M, N) in ANYWHERE {
            sm_90: [norm_sm_90_ T _ragged_ M x N]: norm_ragged<Overlapped<W>, NoResidual, T, Spread<W, G, E, VECTOR>, M, N, 1>;
        }
        for CTAS in [1, 2, 4, 8] {
            sm_90: [norm_sm_90_ T _ragged_1x WIDEST c CTAS]: norm_ragged<Overlapped<8>, NoResidual, T, Spread<8, 256, EACH, VECTOR>, 1, WIDEST, CTAS>;
        }
    }
    for (T, VECTOR, E, N) in [(f16, 8, 64, 16384), (bf16, 8, 64, 16384), (f32, 4, 32, 8192)] {
        for CTAS in [1, 2, 4, 8] {
            sm_90: [norm_sm_90_ T _1x N once CTAS]: norm<Overlapped<8>, OneTile, NoResidual, T, Spread<8, 256, E, VECTOR>, 1, N, CTAS>;
        }
    }

    for (T, VECTOR, WIDE, ONE, HELD, ADDED, WHOLE, RAGGED) in [
        (f16, 8, NextTile, OneTile, [4], [1, 4], [1, 8], 1), (bf16, 8, NextTile, OneTile, [4], [1, 4], [1, 8], 1),
        (f32, 4, Nothing, NextTile, [4, 8], [2, 8], [1], 2),
    ] {
        for (ROWS, R, AHEAD, CLUSTERS) in [(norm, NoResidual, ONE, [1, 8]), (add_norm, Added, NextTile, WHOLE)] {
            for (W, G, E, M, N, F) in [
                (4, 8, 16, 16, 128, NextTile), (4, 8, 32, 16, 256, NextTile), (4, 32, 32, 4, 1024, AHEAD), (4, 128, 32, 1, 4096, NextTile),
                (8, 256, 32, 1, 8192, AHEAD),
            ] {
                sm_90: [ROWS _sm_90_ T _ M x N]: norm<Overlapped<W>, F, R, T, Spread<W, G, E, VECTOR>, M, N, 1>;
                sm_80: [ROWS _sm_80_ T _ M x N]: norm<Simt<W>, F, R, T, Spread<W, G, E, VECTOR>, M, N, 1>;
            }
            sm_80: [ROWS _sm_80_ T _1x16384]: norm<Simt<16>, WIDE, R, T, Spread<16, 512, 32, VECTOR>, 1, 16384, 1>;
            for CTAS in CLUSTERS {
                sm_90: [ROWS _sm_90_ T _1x16384c CTAS]:
                    norm<Overlapped<16>, WIDE, R, T, Spread<16, 512, 32, VECTOR>, 1, 16384, CTAS>;
            }
        }
        for CTAS in HELD {
            sm_90: [norm_sm_90_ T _held CTAS]:
                norm_held<Overlapped<16>, T, Spread<16, 512, { 2 * VECTOR }, VECTOR>, { 1024 * VECTOR }, CTAS, 13, false, 1>;
        }
        // Shared memory has room for 6 pairs of parts.
        for CTAS in ADDED {
            sm_90: [add_norm_sm_90_ T _held CTAS]:
                norm_held<Overlapped<16>, T, Spread<16, 512, { 2 * VECTOR }, VECTOR>, { 1024 * VECTOR }, CTAS, 6, false, 2>;
        }
        sm_90: [add_norm_sm_90_ T _ragged]:
            norm_held<Overlapped<16>, T, Spread<16, 512, VECTOR, VECTOR>, { 512 * VECTOR }, RAGGED, 13, true, 2>;
        sm_90: [add_norm_sm_90_ T _ragged_short]:
            norm_held<Overlapped<1>, T, Spread<1, 32, { 2 * VECTOR }, VECTOR>, { 64 * VECTOR }, 1, 5, true, 2>;
        sm_80: [norm_sm_80_ T _long]: norm_long<Simt<8>, T, Spread<8, 256, 32, VECTOR>, 1, 8192>;
        sm_80: [norm_sm_80_ T _any]: norm_long<Simt<8>, T, Spread<8, 256, 16, 1>, 1, 4096>;
    }
    for (T, VECTOR, ANYWHERE) in [
        (f16, 8, [(8, 256, 16, 1, 4096), (8, 256, 24, 1, 6144), (8, 256, 40, 1, 10240)]),
        (bf16, 8, [(8, 256, 16, 1, 4096), (8, 256, 24, 1, 6144), (8, 256, 40, 1, 10240)]),
        (f32, 4, [(8, 256, 16, 1, 4096), (8, 256, 24, 1, 6144)]),
    ] {
        for (W, G, E, M, N) in ANYWHERE {
            sm_90: [add_norm_sm_90_ T _ragged_ M x N]: norm_ragged<Overlapped<W>, Added, T, Spread<W, G, E, VECTOR>, M, N, 1>;
        }
    }
    for T in [f16, bf16] {
        // Weights of rows that begin anywhere are shifted once a CTA and not once a row: 131072 x 333 take 84 for 114 µs.
        for (E, N) in [(16, 512), (40, 1280)] {
            sm_90: [norm_sm_90_ T _alike_4x N]: norm_alike<Overlapped<4>, T, Spread<4, 32, E, 8>, 4, N>;
        }
        // A warp's row: with its weights a tile of 2560 takes 74 for 64 µs, one of 5120 that is half used 67 for 43.
        sm_90: [norm_sm_90_ T _ragged_short]: norm_held<Overlapped<1>, T, Spread<1, 32, 16, 8>, 512, 1, 6, true, 1>;
        sm_90: [norm_sm_90_ T _1x16384once]: norm<Overlapped<16>, OneTile, NoResidual, T, Spread<16, 512, 32, 8>, 1, 16384, 1>;
        sm_90: [add_norm_sm_90_ T _4x1024once]: norm<Overlapped<4>, OneTile, Added, T, Spread<4, 32, 32, 8>, 4, 1024, 1>;
        sm_90: [add_norm_sm_90_ T _1x4096once]: norm<Overlapped<4>, OneTile, Added, T, Spread<4, 128, 32, 8>, 1, 4096, 1>;
        sm_90: [add_norm_sm_90_ T _1x8192once]: norm<Overlapped<8>, OneTile, Added, T, Spread<8, 256, 32, 8>, 1, 8192, 1>;
        sm_90: [norm_sm_90_ T _2x4096once]: norm<Overlapped<4>, OneTile, NoResidual, T, Spread<4, 64, 64, 8>, 2, 4096, 1>;
        sm_90: [norm_sm_90_ T _1x6144]: norm<Overlapped<8>, OneTile, NoResidual, T, Spread<8, 256, 24, 8>, 1, 6144, 1>;
        sm_90: [add_norm_sm_90_ T _1x6144]: norm<Overlapped<8>, NextTile, Added, T, Spread<8, 256, 24, 8>, 1, 6144, 1>;
    }
}

#[rustfmt::skip]
kernels! {
    /// The kernels of cross-entropy.
    pub static CROSS_ENTROPY: RowsKernel;

    let RAGGED_HALVES = [
        (4, 8, 32, 16, 256), (4, 32, 16, 4, 512), (4, 32, 32, 4, 1024), (4, 64, 32, 2, 2048), (4, 128, 32, 1, 4096), (8, 256, 24, 1, 6144),
        (8, 256, 32, 1, 8192), (16, 512, 24, 1, 12288),
    ];
    let RAGGED_F32 = [
        (4, 8, 16, 16, 128), (4, 32, 24, 4, 768), (4, 64, 24, 2, 1536), (4, 128, 24, 1, 3072), (8, 256, 24, 1, 6144),
    ];
    for (T, VECTOR, ANYWHERE) in [(f16, 8, RAGGED_HALVES), (bf16, 8, RAGGED_HALVES), (f32, 4, RAGGED_F32)]
    {
        for (W, G, E, M, N) in ANYWHERE {
            sm_90: [cross_entropy_sm_90_ T _ragged_ M x N]: cross_entropy_ragged<Overlapped<W>, T, Spread<W, G, E, VECTOR>, M, N, 1>;
        }
    }
    for (T, VECTOR, WIDE, ONE, HELD, RAGGED) in [
        (f16, 8, NextTile, OneTile, [1, 2, 4], 1), (bf16, 8, NextTile, OneTile, [1, 2, 4], 1),
        (f32, 4, Nothing, NextTile, [1, 4, 8], 2),
    ] {
        for (W, G, E, M, N, F) in [
            (4, 8, 16, 16, 128, NextTile), (4, 8, 32, 16, 256, NextTile), (4, 32, 32, 4, 1024, ONE), (4, 128, 32, 1, 4096, NextTile),
            (8, 256, 32, 1, 8192, ONE),
        ] {
            sm_90: [cross_entropy_sm_90_ T _ M x N]: cross_entropy<Overlapped<W>, F, T, Spread<W, G, E, VECTOR>, M, N, 1>;
            sm_80: [cross_entropy_sm_80_ T _ M x N]: cross_entropy<Simt<W>, F, T, Spread<W, G, E, VECTOR>, M, N, 1>;
        }
        sm_80: [cross_entropy_sm_80_ T _1x16384]: cross_entropy<Simt<16>, WIDE, T, Spread<16, 512, 32, VECTOR>, 1, 16384, 1>;
        for CTAS in [1, 8] {
            sm_90: [cross_entropy_sm_90_ T _1x16384c CTAS]:
                cross_entropy<Overlapped<16>, WIDE, T, Spread<16, 512, 32, VECTOR>, 1, 16384, CTAS>;
        }
        for CTAS in HELD {
            sm_90: [cross_entropy_sm_90_ T _held CTAS]:
                cross_entropy_held<Overlapped<16>, T, Spread<16, 512, { 2 * VECTOR }, VECTOR>, { 1024 * VECTOR }, CTAS, 13, false>;
        }
        sm_90: [cross_entropy_sm_90_ T _ragged]:
            cross_entropy_held<Overlapped<8>, T, Spread<8, 256, { 2 * VECTOR }, VECTOR>, { 512 * VECTOR }, RAGGED, 14, true>;
        sm_80: [cross_entropy_sm_80_ T _long]: cross_entropy_long<Simt<8>, T, Spread<8, 256, 32, VECTOR>, 1, 8192>;
        sm_80: [cross_entropy_sm_80_ T _any]: cross_entropy_long<Simt<8>, T, Spread<8, 256, 16, 1>, 1, 4096>;
    }
    for T in [f16, bf16] {
        for CTAS in [1, 2] {
            sm_90: [cross_entropy_sm_90_ T _1x16384once CTAS]: cross_entropy<Overlapped<8>, OneTile, T, Spread<8, 256, 64, 8>, 1, 16384, CTAS>;
        }
    }
    for (T, W, G, N, F) in [
        (f16, 8, 256, 6144, OneTile), (bf16, 8, 256, 6144, OneTile), (f16, 16, 512, 12288, NextTile), (bf16, 16, 512, 12288, NextTile),
    ] {
        sm_90: [cross_entropy_sm_90_ T _1x N]: cross_entropy<Overlapped<W>, F, T, Spread<W, G, 24, 8>, 1, N, 1>;
    }
}
