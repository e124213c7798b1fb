//! Sizes that tiles do not divide, tiles that CTAs divide, and views of every kind.

use tilewright::ops::{DequantGemm, DeviceWeights};
use tilewright::quant::{Format, Group, Order, Zeros};
use tilewright::{Device, Stream, Tensor, f16};
use tilewright_support::guarded::{Guarded, Place};
use tilewright_support::random::normal;
use tilewright_support::suite::Outcome;

use crate::case::{check, compare, kernels, reference, weights};

const U4: (Format, Group, Zeros) = (Format::U4, Group::K128, Zeros::Original);

/// Every kernel at sizes around its tiles.
pub fn ragged(device: &Device) -> Outcome {
    for (m, n, k) in [(1, 1, 1), (2, 63, 65), (17, 65, 127), (33, 129, 321), (65, 260, 136), (131, 64, 72)] {
        let w = weights::<f16>([n, k], U4)?;
        for name in kernels::<f16>(device, m, &w)? {
            check::<f16>(device, m, &w, Some(name))?;
        }
    }
    Ok(())
}

/// More tiles than CTAs, so that staging buffers and stages pass from one tile to the next: of every kernel.
pub fn several_tiles_a_cta(device: &Device) -> Outcome {
    // An SM holds at most five CTAs of a kernel, tiles are of at most 256 rows of W.
    let n = 6 * 256 * device.sm_count().min(4) as usize;
    let (m, k) = (if device.is_emulator() { 20 } else { 70 }, 72);
    let w = weights::<f16>([n, k], U4)?;
    for name in kernels::<f16>(device, m, &w)? {
        check::<f16>(device, m, &w, Some(name))?;
    }
    Ok(())
}

/// More rows of W, and more depth, than a CTA that streams them has in shared memory at a time.
pub fn streamed(device: &Device) -> Outcome {
    for (m, n, k) in [(9, 1100, 4232), (3, 70, 8328)] {
        for zeros in [Zeros::None, Zeros::Original] {
            let w = weights::<f16>([n, k], (Format::U4, Group::K128, zeros))?;
            for name in kernels::<f16>(device, m, &w)?.into_iter().filter(|name| name.contains("stream")) {
                check::<f16>(device, m, &w, Some(name))?;
            }
        }
    }
    Ok(())
}

/// Tiles of more depth than a pipeline has stages, some of them divided: of clusters of CTAs, and where sums are scaled.
pub fn deep(device: &Device) -> Outcome {
    let (m, n, k) = (61, if device.is_emulator() { 590 } else { 1100 }, 2184);
    for zeros in [Zeros::None, Zeros::Original] {
        let w = weights::<f16>([n, k], (Format::U4, Group::K128, zeros))?;
        let names = kernels::<f16>(device, m, &w)?;
        for (kind, end) in [("gemm", "c2"), ("sums", "")] {
            let mut names = names.iter().filter(|name| name.contains(kind) && name.ends_with(end)).peekable();
            names.peek().ok_or(format!("no kernel is of {kind}"))?;
            for name in names {
                check::<f16>(device, m, &w, Some(name))?;
            }
        }
    }
    Ok(())
}

/// Few tiles of much depth: the sums of parts are added in one order, whichever CTA comes last.
pub fn divided(device: &Device) -> Outcome {
    let (m, n, k) = (5, 320, 1536);
    let w = weights::<f16>([n, k], (Format::U4, Group::K64, Zeros::Original))?;
    let packed = DeviceWeights::upload(device, &w.pack(Order::B16)?)?;
    let a = normal::<f16>(7, m * k);
    let at = Tensor::from_slice(device, &a, &[m, k])?;
    let (stream, mut gemm) = (Stream::new(device)?, DequantGemm::new());
    let mut first: Option<Vec<f16>> = None;
    for _ in 0..3 {
        let mut c = Tensor::filled(device, f16::NAN, &[m, n])?;
        gemm.run(&stream, &at.view(), &packed, &mut c.view_mut())?;
        let c = c.to_vec_on(&stream)?;
        compare(&c, &reference(&a, &w), |_, x| x)?;
        if first.get_or_insert_with(|| c.clone()) != &c {
            return Err("the same call gave other bits".into());
        }
    }
    Ok(())
}

/// Lines of A at any address, and C of any strides, with poison around them.
pub fn anywhere(device: &Device) -> Outcome {
    let (m, n, k) = (19, 70, 136);
    let w = weights::<f16>([n, k], U4)?;
    let packed = DeviceWeights::upload(device, &w.pack(Order::B16)?)?;
    let a = normal::<f16>(7, m * k);
    let want = reference(&a, &w);
    let rows = |columns, pitch| Place::by_rows([1, m, columns], pitch);
    for at in
        [rows(k, k), rows(k, k + 8), rows(k, k + 3), rows(k, k).shifted(1), Place::by_columns([1, m, k], m)]
    {
        for to in [rows(n, n), rows(n, n + 10), rows(n, 128), Place::by_columns([1, m, n], m + 1)] {
            let (a, mut c) = (Guarded::with(device, at, &a)?, Guarded::<f16>::at(device, to)?);
            let view = a.view()?.select(0, 0)?;
            DequantGemm::new().run(
                &Stream::new(device)?,
                &view,
                &packed,
                &mut c.view_mut()?.select(0, 0)?,
            )?;
            let (c, touched) = c.read()?;
            compare(&c, &want, |_, x| x).map_err(|error| format!("A at {at:?}, C at {to:?}: {error}"))?;
            if touched > 0 {
                return Err(format!("C at {to:?}: {touched} elements around it were written").into());
            }
        }
    }
    Ok(())
}
