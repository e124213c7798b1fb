//! Caches of 8 bits.

use tilewright::ops::Mla;
use tilewright::{Device, Error, Stream, Tensor, bf16};
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
