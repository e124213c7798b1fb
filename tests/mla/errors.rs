//! Errors that come with a real device. The host library's own tests have the others.

use tilewright::ops::Mla;
use tilewright::{Device, Error, Stream, Tensor, f16};
use tilewright_support::suite::Outcome;

/// Calls that fail leave O alone, and the device goes on working.
pub fn leave_everything_alone(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let ones = |shape: [usize; 4]| Tensor::filled(device, f16::ONE, &shape);
    let (q, cache) = (ones([2, 1, 4, 576])?, ones([5, 32, 1, 576])?);
    let mut o = Tensor::filled(device, f16::NAN, &[2, 1, 4, 512])?;
    let good = [4, 0, 2, 1];
    let of = |table: &[i32], lengths: &[u32]| Mla::new().host_block_table(table).lengths(lengths);
    let refused: [(&str, Mla<'_>); 12] = [
        ("kernel", of(&good, &[64, 33]).kernel("none such")),
        ("scale", of(&good, &[64, 33]).scale(0.0)),
        ("splits", of(&good, &[64, 33]).splits(0)),
        ("lengths", of(&good, &[64, 65])),
        ("lengths", of(&good, &[64])),
        ("block_table", of(&[4, 0, 2, -1], &[64, 33])),
        ("block_table", of(&[4, 5, 2, 1], &[64, 33])),
        ("block_table", of(&[4, 0, 2], &[64, 33])),
        ("block_table", of(&[4, 0, i32::MAX, 1], &[64, 33])),
        ("block_table", of(&[i32::MIN, 0, 2, 1], &[64, 33])),
        ("cache", Mla::new()),
        ("cache", of(&good, &[1, 1])),
    ];
    let misaligned = Tensor::filled(device, f16::ONE, &[1 + 5 * 32 * 576])?;
    let last = refused.len() - 1;
    for (i, (name, mut mla)) in refused.into_iter().enumerate() {
        let shifted = misaligned.view().narrow(0, 1, 5 * 32 * 576)?.reshape(&[5, 32, 1, 576])?;
        let cache = if i == last { shifted } else { cache.view() };
        match mla.run(&stream, &q.view(), &cache, &mut o.view_mut()) {
            Err(Error::Argument { argument, .. }) if argument == name => {}
            other => return Err(format!("not an error about `{name}`: {other:?}").into()),
        }
    }
    let thin = cache.view().reshape(&[20, 8, 1, 576])?;
    match of(&good, &[16, 9]).run(&stream, &q.view(), &thin, &mut o.view_mut()) {
        Err(Error::Argument { argument, .. }) if argument == "cache" => {}
        other => return Err(format!("not an error about pages of 8 rows: {other:?}").into()),
    }
    assert!(o.to_vec_on(&stream)?.iter().all(|x| x.is_nan()));
    // Entries that the lengths do not reach may be anything.
    of(&[4, 0, 2, -1], &[64, 32]).run(&stream, &q.view(), &cache.view(), &mut o.view_mut())?;
    assert!(o.to_vec_on(&stream)?.iter().all(|x| x.to_f32() == 1.0));
    Ok(())
}
