//! Decoding steps of latent attention, over caches of 16 bits and of 8.

use tilewright::ops::{HalfElement, LatentElement, Mla};
use tilewright::{DType, Device, bf16, f16};

use super::{Shapes, Wrong, check, factor, output, overlapped};
use crate::place::Number;
use crate::random::Random;
use crate::{Call, Outcome};

pub fn case(random: &mut Random, device: &Device, call: &mut Call) -> Outcome {
    match random.below(2) {
        0 => of::<f16, f16>(random, device, call),
        _ => of::<bf16, u8>(random, device, call),
    }
}

fn of<T: Number + HalfElement, C: Number + LatentElement<T>>(
    random: &mut Random,
    device: &Device,
    call: &mut Call,
) -> Outcome {
    let codes = C::DTYPE == DType::U8;
    let (batch, heads) = (random.within(1..=2), random.within(1..=3));
    let (rows, [d, dv]) =
        (random.pick(&[1, 8, 16, 24, 64]), random.pick(&[[576, 512], [320, 256], [512, 512]]));
    let scale = random.one_in(2).then(|| factor(random));
    let splits = random.one_in(3).then(|| random.pick(&[0, 1, 2, 1024, 1025, usize::MAX]));
    let lengths: Option<Vec<u32>> = random.one_in(2).then(|| {
        let count = if random.one_in(6) { batch + 1 } else { batch };
        (0..count).map(|_| random.pick(&[0, 1, 8, 65, u32::MAX])).collect()
    });
    let host: Option<Vec<i32>> = random.one_in(3).then(|| {
        let count = if random.one_in(6) { batch + 1 } else { batch };
        (0..count).map(|_| random.pick(&[0, 1, -1, 2, i32::MAX])).collect()
    });
    let (with_table, overlapping) = (random.one_in(3), random.one_in(8));
    call.set(format!(
        "Mla of a cache of {}, scale {scale:?}, splits {splits:?}, lengths {lengths:?}, host's table {host:?}, table {with_table}:",
        C::DTYPE
    ));
    let width = if codes { 656 } else { d };
    let mut shapes = Shapes::new(random, 4);
    let q = shapes.next::<T>(device, &[batch, 1, heads, d], call)?;
    let cache = shapes.next::<C>(device, &[batch, rows, 1, width], call)?;
    let table = shapes.next::<i32>(device, &[batch, 1], call)?;
    let mut o = output::<T>(&mut shapes, device, &[batch, 1, heads, dv], call)?;
    let (stream, kernel) = (shapes.stream(device)?, shapes.kernel());
    let surely = shapes.kind == Wrong::Device && (shapes.wrong != 2 || with_table)
        || scale.is_some_and(|x| !(x.is_finite() && x > 0.0))
        || splits.is_some_and(|splits| !(1..=1024).contains(&splits))
        || lengths.as_ref().is_some_and(|lengths| lengths.len() != batch && shapes.kind == Wrong::Nothing)
        || stream.device() != device
        || (d == 512 || codes && d == 320) && shapes.kind == Wrong::Nothing;
    let table = table.view()?;
    let mla = scale.into_iter().fold(Mla::new(), Mla::scale);
    let mla = splits.into_iter().fold(mla, Mla::splits);
    let mla = lengths.iter().fold(mla, |mla, lengths| mla.lengths(lengths));
    let mla = host.iter().fold(mla, |mla, host| mla.host_block_table(host));
    let mla = if with_table { mla.block_table(&table) } else { mla };
    let mut mla = kernel.into_iter().fold(mla, Mla::kernel);
    if overlapping {
        let (query, pages) = (q.view()?, cache.view()?);
        return overlapped(&q, &[batch, 1, heads, dv], call, |o| mla.run(&stream, &query, &pages, o));
    }
    let result = mla.run(&stream, &q.view()?, &cache.view()?, &mut o.view_mut()?);
    check(result, surely, &o, call)
}
