//! Refused arguments: each error names the tensor, the format and the group, what was wrong and what is allowed.

use tilewright::quant::{
    AwqTensors, Format, GptqTensors, GptqVersion, Group, HalfType, Halves, Order, PackedHeader,
    PackedWeights, QuantizedWeights, Scheme, ZeroPoints, Zeros,
};
use tilewright::{Error, Result, bf16, f16};

use crate::case::weights;

fn expect<T: std::fmt::Debug>(result: Result<T>, message: &str) {
    let error = result.unwrap_err();
    assert!(matches!(&error, Error::Weights { tensor, .. } if tensor == "k_proj"), "{error:?}");
    assert_eq!(error.to_string(), message);
}

#[test]
fn of_codes_scales_and_zeros() {
    let ones = |count| Halves::F16(vec![f16::ONE; count]);
    let make = |format, shape, codes: Vec<u8>, scales, zeros| {
        QuantizedWeights::new("k_proj", format, Group::K32, shape, codes, scales, zeros)
    };
    let whose = "of the u4 weights `k_proj`, groups of 32, was";
    let u4 = |codes: Vec<u8>, scales, zeros| make(Format::U4, [2, 40], codes, scales, zeros);
    let codes = || vec![0; 80];
    assert!(u4(codes(), ones(4), ZeroPoints::None).is_ok());
    expect(
        u4(vec![0; 79], ones(4), ZeroPoints::None),
        &format!("`codes` {whose} 79 values; it must be 80 values: one for each weight of [2, 40]"),
    );
    let mut wide = codes();
    wide[41] = 16;
    expect(
        u4(wide, ones(4), ZeroPoints::None),
        &format!("`codes` {whose} 16 at [1, 1]; it must be below 16"),
    );
    expect(
        u4(codes(), ones(3), ZeroPoints::None),
        &format!(
            "`scales` {whose} 3 values; it must be 4 values: one for each group (groups of 32) of [2, 40]"
        ),
    );
    let infinite = Halves::BF16(vec![bf16::ONE, bf16::ONE, bf16::INFINITY, bf16::ONE]);
    expect(
        u4(codes(), infinite, ZeroPoints::None),
        &format!("`scales` {whose} inf at [1, 0]; it must be finite"),
    );
    let nan = Halves::F16(vec![f16::ONE, f16::NAN, f16::ONE, f16::ONE]);
    expect(
        u4(codes(), ones(4), ZeroPoints::Rescaled(nan)),
        &format!("`zeros` {whose} NaN at [0, 1]; it must be finite"),
    );
    expect(
        u4(codes(), ones(4), ZeroPoints::Original(Halves::BF16(vec![bf16::ONE; 4]))),
        &format!("`zeros` {whose} bf16; it must be f16, as the scales are"),
    );
    expect(
        u4(codes(), ones(4), ZeroPoints::Packed(vec![0, 15, -1, 0])),
        &format!("`zeros` {whose} -1 at [1, 0]; it must be from 0 to 15"),
    );
    expect(
        u4(codes(), ones(4), ZeroPoints::Packed(vec![0; 5])),
        &format!(
            "`zeros` {whose} 5 values; it must be 4 values: one for each group (groups of 32) of [2, 40]"
        ),
    );
    expect(
        make(Format::NF4, [2, 40], codes(), ones(4), ZeroPoints::Packed(vec![0; 4])),
        "`zeros` of the nf4 weights `k_proj`, groups of 32, was packed; it must be none, original or rescaled for this format",
    );
    expect(
        make(Format::U4, [0, 40], vec![], ones(0), ZeroPoints::None),
        &format!("`shape` {whose} [0, 40]; it must be [N, K] with N and K of at least 1"),
    );
    for shape in [[usize::MAX, 2], [2, usize::MAX], [1 << 32, 1 << 32], [1 << 40, 1 << 22]] {
        expect(
            make(Format::U4, shape, vec![], ones(0), ZeroPoints::None),
            &format!("`shape` {whose} {shape:?}; it must be of a size that memory has"),
        );
    }
}

#[test]
fn of_weights_to_quantise() {
    let scheme = Scheme { format: Format::I8, group: Group::Row, zeros: Zeros::None, scales: HalfType::F16 };
    let quantize = |weights: &[f32]| QuantizedWeights::quantize("k_proj", weights, [2, 3], scheme);
    let whose = "of the i8 weights `k_proj`, one group a row, was";
    expect(
        quantize(&[0.0; 5]),
        &format!("`weights` {whose} 5 values; it must be 6 values: one for each weight of [2, 3]"),
    );
    expect(
        quantize(&[0.0, 0.0, 0.0, 0.0, f32::NAN, 0.0]),
        &format!("`weights` {whose} NaN at [1, 1]; it must be finite"),
    );
    expect(
        quantize(&[0.0, 0.0, 0.0, 0.0, 8e6, 0.0]),
        &format!(
            "`weights` {whose} 8000000 at [1, 1]; it must be in the range of f16, the type of the scales"
        ),
    );
    assert!(quantize(&[0.0, 0.0, 0.0, 0.0, 65000.0, -65000.0]).is_ok());
    let wide = Scheme { scales: HalfType::BF16, ..scheme };
    assert!(QuantizedWeights::quantize("k_proj", &[0.0, 0.0, 0.0, 0.0, 8e6, 0.0], [2, 3], wide).is_ok());
    // From one end of the range to the other with one bit.
    let bits = Scheme { format: Format::U1, zeros: Zeros::Original, ..scheme };
    expect(
        QuantizedWeights::quantize("k_proj", &[65504.0f32, -65504.0], [1, 2], bits),
        "`weights` of the u1 weights `k_proj`, one group a row, was 65504 at most in the group from [0, 0]; it must be of a \
         range whose scale is in f16's",
    );
}

/// Kernels round weights to the scales' type: what it does not hold is refused wherever weights are made.
#[test]
fn of_weights_beyond_their_type() {
    let make = |zeros: ZeroPoints, scale: f32, code: u8| {
        let mut codes = vec![0; 2 * 40];
        codes[79] = code;
        let scales = Halves::F16([1.0, 1.0, 1.0, scale].map(f16::from_f32).to_vec());
        QuantizedWeights::new("k_proj", Format::I8, Group::K32, [2, 40], codes, scales, zeros)
    };
    let zeros = |zero: f32| Halves::F16([0.0, 0.0, 0.0, zero].map(f16::from_f32).to_vec());
    let whose = "`weights` of the i8 weights `k_proj`, groups of 32, was";
    let range = "in the range of f16, the type of the scales";
    assert!(make(ZeroPoints::None, 515.0, 127).is_ok());
    // A large scale of a group whose codes do not need it.
    assert!(make(ZeroPoints::None, 65504.0, 1).is_ok());
    expect(
        make(ZeroPoints::None, 516.0, 127),
        &format!("{whose} 127 times the scale 516 at [1, 39]; it must be {range}"),
    );
    expect(
        make(ZeroPoints::Packed(vec![0, 0, 0, 100]), 1000.0, 127),
        &format!("{whose} 0 less the zero 100 times the scale 1000 at [1, 32]; it must be {range}"),
    );
    // Kernels take the zero off first.
    expect(
        make(ZeroPoints::Original(zeros(-65504.0)), 0.001, 127),
        &format!("{whose} 127 less the zero -65504 times the scale 0.001 at [1, 39]; it must be {range}")
            .replace("0.001 at", &format!("{} at", f16::from_f32(0.001).to_f64())),
    );
    assert!(
        make(ZeroPoints::Rescaled(zeros(65504.0)), 1000.0, 127).is_ok_and(|w| w.dequantize()[79] == 61496.0)
    );
    expect(
        make(ZeroPoints::Rescaled(zeros(-65504.0)), 1.0, 127),
        &format!("{whose} 127 times the scale 1 less the zero -65504 at [1, 39]; it must be {range}"),
    );

    // Packed ones of files alike, of which the padding of rows counts too.
    let whole = make(ZeroPoints::None, 1.0, 127).unwrap().pack(Order::B16).unwrap();
    let parts = |scale: f32| {
        let mut scales = whole.scales().clone();
        if let Halves::F16(scales) = &mut scales {
            scales[64 + 1] = f16::from_f32(scale);
            // A row that is not there.
            scales[64 + 2] = f16::MAX;
        }
        PackedWeights::new("k_proj", *whole.header(), whole.codes().to_vec(), scales, None)
    };
    assert!(parts(515.0).is_ok());
    expect(parts(516.0), &format!("{whose} 127 times the scale 516 at [1, 39]; it must be {range}"));
    let mut bytes = parts(515.0).unwrap().to_bytes();
    let at = 64 + whole.codes().len() + 2 * (64 + 1);
    bytes[at..at + 2].copy_from_slice(&f16::from_f32(516.0).to_le_bytes());
    let message = PackedWeights::from_bytes("k_proj", &bytes).unwrap_err().to_string();
    assert!(message.contains("127 times the scale 516 at [1, 39]"), "{message}");
}

/// Sizes that no memory has are not wrapped.
#[test]
fn of_headers_beyond_all_memory() {
    let scheme = Scheme { format: Format::U4, group: Group::K32, zeros: Zeros::None, scales: HalfType::F16 };
    let header = |n, k| PackedHeader { version: PackedWeights::VERSION, scheme, order: Order::B16, n, k };
    assert_eq!(header(65, 64).code_bytes(), 2 * 64 * 32);
    assert_eq!(header(1 << 40, 1 << 40).code_bytes(), usize::MAX);
    assert_eq!(header(usize::MAX, 1).padded_n(), usize::MAX);
    let none = PackedWeights::new("k_proj", header(1 << 40, 1 << 40), vec![], Halves::F16(vec![]), None);
    let message = none.unwrap_err().to_string();
    assert!(message.starts_with("`shape` of the u4 weights `k_proj`"), "{message}");
}

#[test]
fn of_packing() {
    let scheme =
        Scheme { format: Format::E5M2, group: Group::K64, zeros: Zeros::None, scales: HalfType::F16 };
    let floats = weights(scheme, [5, 70], 1);
    let message = floats.pack(Order::B8).unwrap_err().to_string();
    assert_eq!(
        message,
        "`order` of the e5m2 weights `layers.0.up_proj`, groups of 64, was b8; it must be b16: int8 activations \
         multiply integers alone"
    );

    let scheme = Scheme { format: Format::I4, zeros: Zeros::Packed, ..scheme };
    let packed = weights(scheme, [5, 70], 1).pack(Order::B8).unwrap();
    let (header, codes, scales) = (*packed.header(), packed.codes().to_vec(), packed.scales().clone());
    let make = |header, zeros| PackedWeights::new("k_proj", header, codes.clone(), scales.clone(), zeros);
    let zeros = |values: [f64; 128]| Some(Halves::round(HalfType::F16, values));
    let whose = "of the i4 weights `k_proj`, groups of 64, was";
    expect(make(header, None), &format!("`zeros` {whose} missing; it must be as the mode `packed` has them"));
    let mut halves = [0.0; 128];
    halves[3] = 0.5;
    expect(
        make(header, zeros(halves)).unwrap().unpack(),
        &format!("`zeros` {whose} 0.5; it must be integers, as the mode `packed` has them"),
    );
    halves[3] = 8.0;
    expect(
        make(header, zeros(halves)).unwrap().unpack(),
        &format!("`zeros` {whose} 8 at [3, 0]; it must be from -8 to 7"),
    );
    halves[3] = f64::NAN;
    expect(make(header, zeros(halves)), &format!("`zeros` {whose} NaN at 3; it must be finite"));
    let newer = PackedHeader { version: 2, ..header };
    expect(
        make(newer, zeros([0.0; 128])),
        &format!("`version` {whose} 2; it must be 1, the version that this library reads"),
    );
    let short = PackedWeights::new("k_proj", header, codes[1..].to_vec(), scales, zeros([0.0; 128]));
    expect(short, &format!("`codes` {whose} 4095 bytes; it must be 4096 bytes"));
}

#[test]
fn of_checkpoints() {
    let scales = Halves::F16(vec![f16::ONE; 32]);
    let (qweight, qzeros) = ([0; 128], [0; 4]);
    let gptq = GptqTensors {
        bits: 4,
        group: Group::K32,
        version: GptqVersion::V1,
        shape: [16, 64],
        qweight: &qweight,
        qzeros: &qzeros,
        scales: &scales,
        g_idx: None,
    };
    let import = |tensors| QuantizedWeights::from_gptq("k_proj", &tensors);
    assert!(import(gptq).is_ok());
    let whose = "of the u4 weights `k_proj`, groups of 32, was";
    expect(
        import(GptqTensors { bits: 3, ..gptq }),
        "`bits` of the weights `k_proj`, groups of 32, was 3; it must be 2, 4 or 8",
    );
    expect(
        import(GptqTensors { qweight: &qweight[1..], ..gptq }),
        &format!("`qweight` {whose} 127 values; it must be of shape [8, 16]"),
    );
    expect(
        import(GptqTensors { qzeros: &qzeros[1..], ..gptq }),
        &format!("`qzeros` {whose} 3 values; it must be of shape [2, 2]"),
    );
    let few = Halves::F16(vec![f16::ONE; 31]);
    expect(
        import(GptqTensors { scales: &few, ..gptq }),
        &format!("`scales` {whose} 31 values; it must be of shape [2, 16]"),
    );
    expect(
        import(GptqTensors { g_idx: Some(&[0; 63]), ..gptq }),
        &format!("`g_idx` {whose} 63 values; it must be of shape [1, 64]"),
    );
    let mut swapped = [0; 64];
    swapped[32..].fill(1);
    swapped.swap(5, 40);
    expect(
        import(GptqTensors { g_idx: Some(&swapped), ..gptq }),
        &format!("`g_idx` {whose} 1 at 5; it must be 0: groups in order, not in activation order"),
    );
    let sorted = |g_idx: [i32; 64]| {
        QuantizedWeights::from_gptq_act_order("k_proj", &GptqTensors { g_idx: Some(&g_idx), ..gptq })
    };
    assert!(sorted(swapped).is_ok());
    for (at, group, first) in [(50, 0, "0 at 50"), (0, -1, "-1 at 0"), (63, 2, "2 at 63")] {
        let mut uneven = swapped;
        uneven[at] = group;
        let message = format!("`g_idx` {whose} {first}; it must be so that each group has 32 input features");
        expect(sorted(uneven), &message);
    }
    expect(
        import(GptqTensors { shape: [0, 64], ..gptq }),
        &format!("`shape` {whose} [0, 64]; it must be [N, K] with N and K of at least 1"),
    );

    let awq = AwqTensors {
        group: Group::K32,
        shape: [16, 64],
        qweight: &qweight,
        qzeros: &qzeros,
        scales: &scales,
    };
    let import = |tensors| QuantizedWeights::from_awq("k_proj", &tensors);
    assert!(import(awq).is_ok());
    expect(
        import(AwqTensors { shape: [12, 64], ..awq }),
        &format!("`shape` {whose} [12, 64]; it must be [N, K] with N a multiple of 8"),
    );
    expect(
        import(AwqTensors { qweight: &qweight[1..], ..awq }),
        &format!("`qweight` {whose} 127 values; it must be of shape [64, 2]"),
    );
    expect(
        import(AwqTensors { qzeros: &[0; 5], ..awq }),
        &format!("`qzeros` {whose} 5 values; it must be of shape [2, 2]"),
    );
    expect(
        import(AwqTensors { scales: &few, ..awq }),
        &format!("`scales` {whose} 31 values; it must be of shape [2, 16]"),
    );
}
