//! Caches of 8 bits.

use tilewright::ops::{Mla, append_latent};
use tilewright::{Device, Error, F8E4M3, Stream, Tensor, TensorViewMut, bf16};
use tilewright_support::random::normal;
use tilewright_support::suite::Outcome;

use crate::cache::Layout;
use crate::case::Case;
use crate::decode::mixed;

/// Heads, lengths, pages of one row and more, named by the device or by the host, and none.
pub fn sequences(device: &Device) -> Outcome {
    for (heads, rows) in [(128, 64), (16, 1), (70, 2), (5, 256)] {
        Case::new(heads, &mixed(device)).layout(Layout::Pages(rows)).check_codes(device)?;
    }
    Case::new(64, &mixed(device)).layout(Layout::HostPages(1)).check_codes(device)?;
    Case::new(64, &mixed(device)).layout(Layout::Dense).check_codes(device)?;
    Case::new(64, &vec![9; 3 * device.sm_count() as usize]).check_codes(device)?;
    let most = if device.is_emulator() { 7 } else { 130 };
    Case::new(16, &(0..most).map(|i| i * 57 % 3000).collect::<Vec<_>>()).check_codes(device)
}

/// Positions that see keys up to their own, parts, scores far apart, and NaN in a code and in the rotary part behind the mask.
pub fn options(device: &Device) -> Outcome {
    for (positions, heads) in [(2, 64), (3, 5), (64, 1)] {
        Case::new(heads, &mixed(device)).causal(positions).check_codes(device)?;
    }
    for (positions, heads) in [(66, 16), (65, 128)] {
        Case::new(heads, &[70, 0]).layout(Layout::Dense).causal(positions).check_codes(device)?;
    }
    for splits in [1, 3, 32] {
        Case::new(64, &mixed(device)).splits(splits).check_codes(device)?;
    }
    for heat in [4.0, 40.0] {
        Case { heat, ..Case::new(64, &mixed(device)) }.check_codes(device)?;
    }
    for column in [7, 570] {
        let case = Case { nan: Some(column), ..Case::new(16, &[70, 200]).causal(4) };
        case.check_codes(device)?;
        case.splits(2).check_codes(device)?;
    }
    Ok(())
}

/// Two tiles of rows in a cluster, whose CTAs copy what they widened to each other, in any order of their warps: the last output goes through a stage from which the other
/// CTA has got its part by then.
pub fn clusters(device: &Device) -> Outcome {
    let case = |heads, lengths: &[u32]| Case::new(heads, lengths).layout(Layout::Pages(128));
    let cases = [case(100, &[256, 256]), case(128, &[130, 64]).splits(1), case(192, &[640, 0]).splits(1)];
    cases.iter().try_for_each(|case| case.check_codes(device))?;
    if device.is_emulator() {
        for seed in 1..9 {
            let device = Device::emulator_with_seed(seed);
            cases.iter().try_for_each(|case| case.check_codes(&device))?;
        }
    }
    Ok(())
}

/// A list of tokens for each query: those that are negative or too large are zeros, and others may be in several lists, and twice in one.
pub fn lists(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    // Token t is of the code of 1 with a scale of t + 1; the rotary part is zeros.
    let record = |t: usize| {
        let scale = (t as f32 + 1.0).to_le_bytes();
        [[0x38; 512].to_vec(), scale.repeat(4), vec![0; 128]].concat()
    };
    let tokens: Vec<u8> = (0..8).flat_map(record).collect();
    let cache = Tensor::from_slice(device, &tokens, &[8, 1, 1, 656])?;
    let lists = [[3, 0, 7, 7], [-1, 8, i32::MIN, 5], [6, 1, 2, 0]];
    let table = Tensor::from_slice(device, lists.as_flattened(), &[3, 4])?;
    let q = Tensor::<bf16>::zeros(device, &[3, 1, 128, 576])?;
    let mut o = Tensor::filled(device, bf16::NAN, &[3, 1, 128, 512])?;
    let mut mla = Mla::new().block_table(table.view()).lengths(&[4, 4, 2]);
    mla.run(&stream, &q.view(), &cache.view(), &mut o.view_mut())?;
    for (o, mean) in o.to_vec_on(&stream)?.chunks(128 * 512).zip([21.0 / 4.0, 6.0 / 4.0, 9.0 / 2.0]) {
        assert!(o.iter().all(|x| x.to_f32() == mean), "{} for {mean}", o[0]);
    }
    Ok(())
}

/// Tokens that are appended are what the host makes of them, bit by bit, each in its slot; others stay.
pub fn append(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let tokens = 37;
    let mut values: Vec<bf16> = normal(3, tokens * 600);
    // All zeros; the largest and the least numbers, NaN, and an infinity.
    values[..128].fill(bf16::ZERO);
    for (i, x) in [bf16::MAX, bf16::MIN_POSITIVE_SUBNORMAL, bf16::NAN, bf16::INFINITY].into_iter().enumerate()
    {
        values[600 * (i + 1) + 130] = x;
    }
    values[600 * 6..][..512].fill(bf16::MIN_POSITIVE_SUBNORMAL);
    let all = Tensor::from_slice(device, &values, &[tokens, 600])?;
    let view = || all.view();
    let (latent, rotary) = (view().narrow(1, 8, 512)?, view().narrow(1, 528, 64)?);
    // Pages of 16 rows; of two slots a cache has none.
    let slot = |token: usize| match token {
        11 => -1,
        12 => 48,
        _ => (token * 5 % 48) as i64,
    };
    let slots: Vec<i64> = (0..tokens).map(slot).collect();
    let numbers = Tensor::from_slice(device, &slots, &[tokens])?;
    let mut cache = Tensor::filled(device, 0xabu8, &[3, 16, 1, 656])?;
    append_latent(&stream, &latent, &rotary, numbers.view(), &mut cache.view_mut())?;
    let mut expected = vec![0xabu8; 48 * 656];
    for (token, &slot) in slots.iter().enumerate().filter(|(_, slot)| (0..48).contains(*slot)) {
        let row = &values[token * 600..][..600];
        let (mut codes, mut scales) = (Vec::new(), Vec::new());
        for columns in row[8..520].chunks(128) {
            let most = columns.iter().fold(0.0f32, |most, x| most.max(x.to_f32().abs()));
            let scale = (most * (1.0 / 448.0)).max(f32::MIN_POSITIVE);
            codes.extend(columns.iter().map(|x| F8E4M3::from_f32(x.to_f32() * (1.0 / scale)).to_bits()));
            scales.extend(scale.to_le_bytes());
        }
        let rotary: Vec<u8> = row[528..592].iter().flat_map(|x| x.to_bits().to_le_bytes()).collect();
        expected[slot as usize * 656..][..656].copy_from_slice(&[codes, scales, rotary].concat());
    }
    let written = cache.to_vec_on(&stream)?;
    match (0..expected.len()).find(|&at| written[at] != expected[at]) {
        None => Ok(()),
        Some(at) => {
            let what = format!(
                "{:#x} for {:#x} at byte {} of row {}",
                written[at],
                expected[at],
                at % 656,
                at / 656
            );
            Err(what.into())
        }
    }
}

/// Of calls that do not fit an error names the argument.
pub fn append_errors(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let tokens = Tensor::<bf16>::zeros(device, &[5, 584])?;
    let part = |from, columns| tokens.view().narrow(1, from, columns);
    let slots = Tensor::<i32>::zeros(device, &[6])?;
    let mut cache = Tensor::<u8>::zeros(device, &[2, 4, 1, 656])?;
    let mut wide = Tensor::<u8>::zeros(device, &[2, 4, 1, 672])?;
    let refused = |name: &str,
                   latent: [usize; 2],
                   rotary: [usize; 2],
                   count: usize,
                   cache: &mut TensorViewMut<'_, u8>|
     -> Outcome {
        let (latent, rotary) = (part(latent[0], latent[1])?, part(rotary[0], rotary[1])?);
        match append_latent(&stream, &latent, &rotary, slots.view().narrow(0, 0, count)?, cache) {
            Err(Error::Argument { argument, .. }) if argument == name => Ok(()),
            other => Err(format!("not an error about `{name}`: {other:?}").into()),
        }
    };
    refused("latent", [0, 511], [512, 64], 5, &mut cache.view_mut())?;
    refused("latent", [4, 512], [520, 64], 5, &mut cache.view_mut())?;
    refused("rotary", [0, 512], [512, 63], 5, &mut cache.view_mut())?;
    refused("rotary", [0, 512], [516, 64], 5, &mut cache.view_mut())?;
    refused("slots", [0, 512], [512, 64], 6, &mut cache.view_mut())?;
    refused("cache", [0, 512], [512, 64], 5, &mut wide.view_mut())?;
    refused("cache", [0, 512], [512, 64], 5, &mut wide.view_mut().narrow(3, 8, 656)?)
}

/// What does not fit is an error about its argument.
pub fn errors(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let mut o = Tensor::filled(device, bf16::NAN, &[1, 1, 1, 512])?;
    let mut refused = |name: &str, d: usize, shape: [usize; 4], from: usize| -> Outcome {
        let q = Tensor::<bf16>::zeros(device, &[1, 1, 1, d])?;
        let len: usize = shape.iter().product();
        let bytes = Tensor::<u8>::zeros(device, &[len + from])?;
        let cache = bytes.view().narrow(0, from, len)?.reshape(&shape)?;
        let table = [0, 0];
        let mut mla = Mla::new().host_block_table(&table);
        let mut narrow = o.view_mut().narrow(3, 0, if d == 320 { 256 } else { 512 })?;
        match mla.run(&stream, &q.view(), &cache, &mut narrow) {
            Err(Error::Argument { argument, .. }) if argument == name => Ok(()),
            other => Err(format!("not an error about `{name}`: {other:?}").into()),
        }
    };
    refused("cache", 576, [2, 64, 1, 576], 0)?;
    refused("cache", 576, [2, 64, 1, 655], 0)?;
    refused("cache", 576, [2, 3, 1, 656], 0)?;
    refused("cache", 576, [2, 64, 2, 656], 0)?;
    refused("cache", 576, [2, 64, 1, 656], 8)?;
    refused("q", 320, [2, 64, 1, 656], 0)
}
