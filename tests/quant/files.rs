//! Packed weights written and read back, whole and damaged.

use proptest::prelude::*;
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use tilewright::quant::{Format, Group, HalfType, Order, PackedWeights, Scheme, Zeros};

use crate::case::{any_scheme, schemes, weights};

fn packed(scheme: Scheme, shape: [usize; 2]) -> PackedWeights {
    weights(scheme, shape, 11).pack(Order::B16).unwrap()
}

const SCHEME: Scheme =
    Scheme { format: Format::U4, group: Group::K128, zeros: Zeros::Original, scales: HalfType::F16 };

#[test]
fn every_scheme_is_read_back() {
    for scheme in schemes() {
        let order = if scheme.format.is_integer() { Order::B8 } else { Order::B16 };
        let packed = weights(scheme, [65, 70], 2).pack(order).unwrap();
        assert_eq!(PackedWeights::from_bytes(packed.name(), &packed.to_bytes()).unwrap(), packed);
        let file = PackedWeights::to_safetensors([&packed]).unwrap();
        assert_eq!(PackedWeights::from_safetensors(packed.name(), &file).unwrap(), packed);
    }
}

/// The bytes are the specification's.
#[test]
fn the_header_is_as_specified() {
    let scheme =
        Scheme { format: Format::NF4, group: Group::K64, zeros: Zeros::Rescaled, scales: HalfType::BF16 };
    let packed = weights(scheme, [70, 300], 1).pack(Order::B16).unwrap();
    let bytes = packed.to_bytes();
    assert_eq!(bytes[..8], *b"TWWEIGHT");
    assert_eq!(bytes[8..24], [1, 0, 0, 0, 7, 1, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(bytes[24..40], [70, 0, 0, 0, 0, 0, 0, 0, 44, 1, 0, 0, 0, 0, 0, 0]);
    assert!(bytes[40..64].iter().all(|&byte| byte == 0));
    let (codes, scales) = (128 * 320 / 2, 5 * 128 * 2);
    assert_eq!(bytes.len(), 64 + codes + 2 * scales);
    assert_eq!(bytes[64..64 + codes], *packed.codes());
    assert_eq!(bytes[64 + codes..][..scales], packed.scales().to_bytes());
    assert_eq!(bytes[64 + codes + scales..], packed.zeros().unwrap().to_bytes());
    let tags: Vec<_> = Format::ALL
        .into_iter()
        .map(|format| packed_tag(Scheme { format, zeros: Zeros::None, ..scheme }))
        .collect();
    assert_eq!(tags, (0..11).collect::<Vec<u8>>());
}

fn packed_tag(scheme: Scheme) -> u8 {
    packed(scheme, [1, 1]).to_bytes()[12]
}

#[test]
fn damaged_headers_are_errors() {
    let bytes = packed(SCHEME, [65, 70]).to_bytes();
    let read = |bytes: &[u8]| PackedWeights::from_bytes("v_proj", bytes);
    let message = |at: usize, byte: u8| {
        let mut bytes = bytes.clone();
        bytes[at] = byte;
        read(&bytes).unwrap_err().to_string()
    };
    for (at, what) in [(0, "header"), (7, "header"), (8, "version"), (11, "version"), (12, "format")] {
        let message = message(at, 0x5a);
        assert!(message.starts_with(&format!("`{what}` of the weights `v_proj`")), "{at}: {message}");
    }
    for (at, what) in [
        (13, "group"),
        (14, "zeros"),
        (15, "scales"),
        (16, "order"),
        (17, "reserved bytes"),
        (23, "reserved bytes"),
        (40, "reserved bytes"),
        (63, "reserved bytes"),
        (24, "bytes"),
        (31, "shape"),
        (32, "bytes"),
        (39, "shape"),
    ] {
        let message = message(at, 0xe1);
        assert!(message.starts_with(&format!("`{what}` of the u4 weights `v_proj`")), "{at}: {message}");
    }
    for len in (0..bytes.len()).step_by(7).chain([63, 64, bytes.len() - 1]) {
        assert!(read(&bytes[..len]).is_err(), "{len} bytes");
    }
    let mut longer = bytes.clone();
    longer.push(0);
    assert!(read(&longer).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// What is accepted is what was written, or weights that are written just as they were read.
    #[test]
    fn damage_is_an_error_or_other_weights(
        scheme in any_scheme(), at in 0usize..64, byte: u8, more in 0usize..3,
    ) {
        let mut bytes = packed(scheme, [3, 40]).to_bytes();
        bytes[at] = byte;
        bytes.extend([0; 2].iter().take(more));
        if let Ok(read) = PackedWeights::from_bytes("w", &bytes) {
            prop_assert_eq!(read.to_bytes(), bytes);
            prop_assert!(read.unpack().is_err() || read.unpack().unwrap().pack(read.header().order).is_ok());
        }
    }
}

#[test]
fn several_weights_lie_in_one_file() {
    let all: Vec<_> = [Format::I2, Format::E4M3, Format::U1]
        .into_iter()
        .enumerate()
        .map(|(i, format)| {
            let scheme = Scheme { format, zeros: Zeros::None, ..SCHEME };
            let packed = packed(scheme, [10 * (i + 1), 33]);
            let (header, codes) = (*packed.header(), packed.codes().to_vec());
            PackedWeights::new(format!("layers.{i}.w"), header, codes, packed.scales().clone(), None).unwrap()
        })
        .collect();
    let file = PackedWeights::to_safetensors(&all).unwrap();
    for weights in &all {
        assert_eq!(PackedWeights::from_safetensors(weights.name(), &file).unwrap(), *weights);
    }
    let tensors = SafeTensors::deserialize(&file).unwrap();
    let codes = tensors.tensor("layers.2.w.packed").unwrap();
    assert_eq!((codes.dtype(), codes.shape()), (Dtype::U8, [1, 1, 512].as_slice()));
    let scales = tensors.tensor("layers.2.w.scales").unwrap();
    assert_eq!((scales.dtype(), scales.shape()), (Dtype::F16, [1, 64].as_slice()));
    assert!(tensors.tensor("layers.2.w.zeros").is_err());

    let twice = PackedWeights::to_safetensors([&all[0], &all[0]]).unwrap_err().to_string();
    assert!(twice.starts_with("`name` of the i2 weights `layers.0.w`, groups of 128, was"), "{twice}");
    let other = PackedWeights::from_safetensors("layers.9.w", &file).unwrap_err().to_string();
    assert!(other.contains("`layers.9.w`") && other.contains("missing"), "{other}");
}

#[test]
fn a_file_of_no_weights_is_a_file() {
    let file = PackedWeights::to_safetensors([]).unwrap();
    assert_eq!(SafeTensors::deserialize(&file).unwrap().len(), 0);
    let message = PackedWeights::from_safetensors("w", &file).unwrap_err().to_string();
    assert!(message.contains("`metadata`") && message.contains("missing"), "{message}");
}

/// The tensors of a file with one part and one line of metadata replaced.
fn altered(part: &str, with: Option<(Dtype, usize)>, metadata: impl Fn(&str) -> String) -> String {
    let file = PackedWeights::to_safetensors([&packed(SCHEME, [65, 70])]).unwrap();
    let tensors = SafeTensors::deserialize(&file).unwrap();
    let zeros = vec![0; 1 << 16];
    let views = tensors.iter().filter_map(|(name, view)| match with {
        _ if name != part => Some((name, view)),
        None => None,
        Some((dtype, count)) => {
            let bytes = &zeros[..count * dtype.bitsize() / 8];
            Some((name, TensorView::new(dtype, vec![count], bytes).unwrap()))
        }
    });
    let (_, header) = SafeTensors::read_metadata(&file).unwrap();
    let described = header.metadata().clone().unwrap();
    let described = described.iter().map(|(name, line)| (name.clone(), metadata(line))).collect();
    let file = safetensors::serialize(views.collect::<Vec<_>>(), Some(described)).unwrap();
    match PackedWeights::from_safetensors("layers.0.up_proj", &file) {
        Ok(_) => "no error".to_owned(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn damaged_files_are_errors() {
    let same = |line: &str| line.to_owned();
    assert_eq!(altered("", None, same), "no error");
    let whose = "of the u4 weights `layers.0.up_proj`, groups of 128, was";
    for (part, with, expected) in [
        ("layers.0.up_proj.packed", None, format!("`codes` {whose} missing")),
        ("layers.0.up_proj.zeros", None, format!("`zeros` {whose} missing")),
        ("layers.0.up_proj.scales", Some((Dtype::BF16, 128)), format!("`scales` {whose} of BF16")),
        ("layers.0.up_proj.scales", Some((Dtype::F16, 127)), format!("`scales` {whose} 127 values")),
        ("layers.0.up_proj.packed", Some((Dtype::U8, 100)), format!("`codes` {whose} 100 bytes")),
    ] {
        let message = altered(part, with, same);
        assert!(message.starts_with(&expected), "{message}");
    }
    for (from, to, expected) in [
        ("version=1", "version=2", "`version` of the weights `layers.0.up_proj` was 2; it must be 1"),
        ("version=1", "version=x", "`version` of the weights `layers.0.up_proj` was no number"),
        ("format=u4", "format=u5", "`format` of the weights `layers.0.up_proj` was not known"),
        ("group=128", "", "`group` of the weights `layers.0.up_proj` was missing"),
        ("zeros=original", "zeros=", "`zeros` of the weights `layers.0.up_proj` was not known"),
        ("scales=f16", "scales=f32", "`scales` of the weights `layers.0.up_proj` was not known"),
        ("order=b16", "order=b4", "`order` of the weights `layers.0.up_proj` was not known"),
        ("n=65", "n=0", "`shape` of the u4 weights `layers.0.up_proj`, groups of 128, was [0, 70]"),
        ("k=70", "k=18446744073709551615", "`shape` of the u4 weights `layers.0.up_proj`"),
        ("k=70", "k=-1", "`k` of the weights `layers.0.up_proj` was no number"),
    ] {
        let message = altered("", None, |line| line.replace(from, to));
        assert!(message.starts_with(expected), "{from} to {to}: {message}");
    }
    let file = PackedWeights::to_safetensors([&packed(SCHEME, [65, 70])]).unwrap();
    for len in [0, 7, 8, 100, file.len() - 1] {
        assert!(PackedWeights::from_safetensors("layers.0.up_proj", &file[..len]).is_err(), "{len} bytes");
    }
}
