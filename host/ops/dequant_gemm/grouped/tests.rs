//! What is chosen.

use crate::backend::fake;
use crate::ops::{DeviceWeights, GroupRows, GroupedDequantGemm, WeightFacts, WeightMemory};
use crate::quant::{Format, Group, HalfType, Order, PackedHeader, PackedWeights, Scheme, Zeros};
use crate::{Device, TensorView, TensorViewMut, bf16};

/// The kernel for so many rows and groups of N x K.
fn chosen(device: &Device, rows: usize, groups: usize, [n, k]: [usize; 2]) -> &'static str {
    let (format, group, zeros, scales) = (Format::U4, Group::K128, Zeros::None, HalfType::BF16);
    let (scheme, version) = (Scheme { format, group, zeros, scales }, PackedWeights::VERSION);
    let header = PackedHeader { version, scheme, order: Order::B16, n: groups * n, k };
    // SAFETY: nothing reads the memory of a fake device.
    let w = unsafe {
        let memory = WeightMemory::from_raw_parts(device, &header, fake::VAST, fake::VAST, None, ()).unwrap();
        DeviceWeights::from_memory("experts", &header, memory, WeightFacts::default()).unwrap()
    };
    let a = TensorView::<bf16>::without_memory(device, &[rows, k], &[k, 1], 16).unwrap();
    let c = TensorViewMut::<bf16>::without_memory(device, &[rows, n], &[n, 1], 16).unwrap();
    let offsets = TensorView::<i32>::without_memory(device, &[groups + 1], &[1], 4).unwrap();
    let (a, c, rows) = (a.planned(0), c.planned(2), GroupRows::offsets(offsets.planned(1)));
    GroupedDequantGemm::new().candidates(&a, &w, &rows, &c).unwrap()[0].name()
}

/// Those of BENCHMARKS, but for one, whose kernel takes 1 % longer.
#[test]
fn the_fastest_measured_are_chosen() {
    let (device, _) = fake::h200();
    let [few, some, many] = [
        "sums_sm_90_bf16_u4_none_16x256x128s8",
        "sm_90_bf16_u4_none_64x256x128s5",
        "sm_90_bf16_u4_none_128x256x128s3",
    ];
    for (top, groups, size, tiles) in [
        (8, 256, [4096, 7168], [many, some, few]),
        (8, 256, [7168, 2048], [many, some, few]),
        (8, 128, [3072, 4096], [many, some, few]),
        (8, 128, [4096, 1536], [many, some, few]),
        (2, 8, [28672, 4096], [many, many, few]),
        (2, 8, [4096, 14336], [many, many, some]),
    ] {
        for (tokens, tile) in [8192, 1024, 64].into_iter().zip(tiles) {
            let chosen = chosen(&device, tokens * top, groups, size);
            assert_eq!(
                chosen,
                format!("grouped_dequant_{tile}"),
                "{tokens} tokens, {groups} groups of {size:?}"
            );
        }
    }
}
