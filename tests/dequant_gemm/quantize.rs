//! Weights that kernels quantise, beside those of the host.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tilewright::ops::{DequantGemm, DeviceWeights, HalfElement, WeightFacts, WeightMemory};
use tilewright::quant::{
    Format, Group, HalfType, Order, PackedHeader, QuantizedWeights, Scheme, WeightElement, Zeros,
};
use tilewright::{Device, Stream, Tensor, bf16, f16};
use tilewright_support::random::normal;
use tilewright_support::suite::Outcome;

use crate::case::{compare, reference};

/// Rows and depths that end inside of blocks and of groups.
const SHAPE: [usize; 2] = [70, 200];

/// Wide weights of all magnitudes, some groups alike or zeros.
fn wide<T: WeightElement>(of: impl Fn(f32) -> T) -> Vec<T> {
    let [n, k] = SHAPE;
    let mut wide = normal::<f32>(21, n * k);
    for (i, x) in wide.iter_mut().enumerate() {
        match i / k {
            1 => *x = 0.0,
            2 => *x = 0.75,
            3 => *x = x.abs(),
            4 => *x *= 1e-6,
            5 => *x *= 100.0,
            row => *x += row as f32 / 70.0,
        }
    }
    wide.into_iter().map(of).collect()
}

fn check<T: WeightElement>(
    device: &Device,
    wide: &[T],
    (format, group, zeros): (Format, Group, Zeros),
    scales: HalfType,
    order: Order,
) -> Outcome {
    let scheme = Scheme { format, group, zeros, scales };
    let stream = Stream::new(device)?;
    let view = Tensor::from_slice(device, wide, &SHAPE)?;
    let packed = QuantizedWeights::quantize("w", wide, SHAPE, scheme)?.pack(order)?;
    let made =
        DeviceWeights::quantize(&stream, "w", &view.view(), (scheme, order), None)?.download(&stream)?;
    if made == packed {
        return Ok(());
    }
    let apart = |a: &[u8], b: &[u8]| a.iter().zip(b).position(|(a, b)| a != b);
    let codes = apart(made.codes(), packed.codes());
    let scales = apart(&made.scales().to_bytes(), &packed.scales().to_bytes());
    let zeros = made.zeros().zip(packed.zeros()).and_then(|(a, b)| apart(&a.to_bytes(), &b.to_bytes()));
    Err(format!("{scheme:?}, {order:?}: codes {codes:?}, scales {scales:?}, zeros {zeros:?} are others")
        .into())
}

/// Every format with each mode of zeros, groups and element types in turn.
pub fn as_on_the_host(device: &Device) -> Outcome {
    let (narrow, brain, single) = (wide(f16::from_f32), wide(bf16::from_f32), wide(|x| x));
    let mut turn = 0;
    for format in Format::ALL {
        for zeros in Zeros::ALL {
            if zeros == Zeros::Packed && !format.is_integer() {
                continue;
            }
            let group = Group::ALL[turn % Group::ALL.len()];
            let scales = [HalfType::F16, HalfType::BF16][turn / 2 % 2];
            let order = if format.is_integer() && turn % 3 == 0 { Order::B8 } else { Order::B16 };
            let of = (format, group, zeros);
            match turn % 3 {
                0 => check(device, &narrow, of, scales, order)?,
                1 => check(device, &brain, of, scales, order)?,
                _ => check(device, &single, of, scales, order)?,
            }
            turn += 1;
        }
    }
    Ok(())
}

/// Transposed, and with rows that begin anywhere.
pub fn anywhere(device: &Device) -> Outcome {
    let [n, k] = SHAPE;
    let wide = wide(|x| x);
    let scheme =
        Scheme { format: Format::U4, group: Group::K64, zeros: Zeros::Original, scales: HalfType::F16 };
    let stream = Stream::new(device)?;
    let packed = QuantizedWeights::quantize("w", &wide, SHAPE, scheme)?.pack(Order::B16)?;
    let columns: Vec<f32> = (0..n * k).map(|i| wide[i % n * k + i / n]).collect();
    let columns = Tensor::from_slice(device, &columns, &[k, n])?;
    let padded: Vec<f32> =
        (0..n * (k + 1)).map(|i| *wide.get(i / (k + 1) * k + i % (k + 1)).unwrap_or(&0.0)).collect();
    let padded = Tensor::from_slice(device, &padded, &[n, k + 1])?;
    for view in [columns.view().transpose(0, 1)?, padded.view().narrow(1, 0, k)?] {
        let made = DeviceWeights::quantize(&stream, "w", &view, (scheme, Order::B16), None)?;
        assert!(made.download(&stream)? == packed, "{view:?}");
    }
    Ok(())
}

/// The error is the host's.
pub fn refused(device: &Device) -> Outcome {
    let [n, k] = SHAPE;
    let scheme = Scheme { format: Format::I8, group: Group::K32, zeros: Zeros::None, scales: HalfType::F16 };
    let stream = Stream::new(device)?;
    for (at, value) in [(0, f32::NAN), (n * k - 1, f32::INFINITY), (777, 1e6)] {
        let mut wide = wide(|x| x);
        wide[at] = value;
        let want = QuantizedWeights::quantize("w", &wide, SHAPE, scheme).expect_err("the host refuses it");
        let view = Tensor::from_slice(device, &wide, &SHAPE)?;
        let error = DeviceWeights::quantize(&stream, "w", &view.view(), (scheme, Order::B16), None);
        assert_eq!(error.err(), Some(want));
    }
    Ok(())
}

/// Says when it is dropped.
struct Owner(Arc<AtomicBool>, #[expect(dead_code, reason = "it is kept alive")] [Tensor<u8>; 2]);

impl Drop for Owner {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Uploaded to it, made in it, and found there; its owner lives as long as the weights.
pub fn memory(device: &Device) -> Outcome {
    let ([n, k], m) = (SHAPE, 3);
    let scheme = Scheme { format: Format::NF4, group: Group::K64, zeros: Zeros::None, scales: f16::HALF };
    let wide = wide(f16::from_f32);
    let stream = Stream::new(device)?;
    let quantized = QuantizedWeights::quantize("w", &wide, SHAPE, scheme)?;
    let packed = quantized.pack(Order::B16)?;
    let header = *packed.header();
    let (a, gone) = (normal::<f16>(7, m * k), Arc::new(AtomicBool::new(false)));
    let (at, view) = (Tensor::from_slice(device, &a, &[m, k])?, Tensor::from_slice(device, &wide, &SHAPE)?);
    let room = || {
        let bytes = [header.code_bytes(), header.groups() * header.padded_n() * 2];
        let [codes, scales] = bytes.map(|bytes| Tensor::<u8>::uninit(device, &[bytes]));
        let (codes, scales) = (codes?, scales?);
        let addresses = [codes.address(), scales.address()];
        let owner = Owner(gone.clone(), [codes, scales]);
        // SAFETY: the owner has so much memory.
        unsafe { WeightMemory::from_raw_parts(device, &header, addresses[0], addresses[1], None, owner) }
    };
    let found = room()?;
    let copies = DeviceWeights::upload_on(&stream, &packed, Some(room()?))?;
    let made = DeviceWeights::quantize(&stream, "w", &view.view(), (scheme, Order::B16), Some(room()?))?;
    let queued = {
        // SAFETY: the weights outlive the copy, which the product's result waits for.
        unsafe { DeviceWeights::queue_upload(&stream, &packed, Some(found))? }
    };
    for w in [copies, made, queued] {
        let mut c = Tensor::filled(device, f16::NAN, &[m, n])?;
        DequantGemm::new().run(&stream, &at.view(), &w, &mut c.view_mut())?;
        compare(&c.to_vec_on(&stream)?, &reference(&a, &quantized), |_, x| x)?;
        assert!(!gone.load(Ordering::Relaxed), "the owner is gone before the weights");
        drop(w);
        assert!(gone.swap(false, Ordering::Relaxed), "the owner outlives the weights");
    }
    // SAFETY: nothing uses it.
    let crooked = unsafe { WeightMemory::from_raw_parts(device, &header, 8, 16, None, ()) };
    assert!(crooked.is_err_and(|error| error.to_string().starts_with("`codes` was at 0x8")));
    let half = PackedHeader { n: header.n / 2, ..header };
    let small = || WeightMemory::allocate(device, &half);
    let refusals = [
        DeviceWeights::upload_on(&stream, &packed, Some(small()?)),
        DeviceWeights::quantize(&stream, "w", &view.view(), (scheme, Order::B16), Some(small()?)),
        // SAFETY: it is refused.
        unsafe { DeviceWeights::from_memory("w", &header, small()?, WeightFacts::default()) },
    ];
    for refused in refusals {
        let error = refused.err().ok_or("memory for other weights is taken")?.to_string();
        assert!(error.starts_with("`memory` of") && error.contains("was for [35, 200]"), "{error}");
    }
    let memory = WeightMemory::allocate(device, &header)?;
    // SAFETY: no kernel reads what is not there.
    let weights = unsafe { DeviceWeights::from_memory("w", &header, memory, WeightFacts::default())? };
    assert_eq!(weights.shape(), SHAPE);
    Ok(())
}
