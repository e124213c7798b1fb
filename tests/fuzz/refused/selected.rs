//! Attention with lists of blocks, and with what does not go with them.

use tilewright::ops::Attention;
use tilewright::{Device, Tensor, f16};

use super::{Shapes, Wrong, check, factor, output, overlapped};
use crate::random::Random;
use crate::{Call, Outcome};

/// What is given beside the lists.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Beside {
    Nothing,
    Softcap,
    Bias,
    Slopes,
    Lists,
    Packed,
}

pub fn case(random: &mut Random, device: &Device, call: &mut Call) -> Outcome {
    use Beside::*;
    let (batch, kv_heads, group) = (random.within(1..=2), random.within(1..=2), random.pick(&[1, 3, 16]));
    let (heads, columns) = (kv_heads * group, random.pick(&[8, 64, 256, 257, 0]));
    let (queries, keys, most) = (random.size(12), random.size(80), random.pick(&[0, 1, 4, 1 << 25]));
    let block = random.pick(&[64, 64, 64, 128, 0, 1, 63, 100, 1 << 31, usize::MAX, usize::MAX - 63]);
    let beside = random.pick(&[Nothing, Nothing, Nothing, Softcap, Bias, Slopes, Lists, Packed]);
    let splits = random.one_in(3).then(|| random.pick(&[0, 1, 2, 1024, 1025, usize::MAX]));
    let scale = random.one_in(3).then(|| factor(random));
    let (with_table, overlapping) = (random.one_in(3), random.one_in(8));
    call.set(format!(
        "Attention of selected blocks of {block} keys beside {beside:?}, scale {scale:?}, splits {splits:?}, table {with_table}, overlapping \
         {overlapping}:"
    ));
    let mut shapes = Shapes::new(random, 7);
    let q = shapes.next::<f16>(device, &[batch, heads, queries, columns], call)?;
    let k = shapes.next::<f16>(device, &[batch, kv_heads, keys, columns], call)?;
    let v = shapes.next::<f16>(device, &[batch, kv_heads, keys, columns], call)?;
    // Long lists are of one number, again and again.
    let long = most > 4;
    let wide = [batch, kv_heads, queries, if long { 1 } else { most }];
    let lists = shapes.next::<i32>(device, &wide, call)?;
    let table = shapes.next::<i32>(device, &[batch, 1], call)?;
    let mut lse = output::<f32>(&mut shapes, device, &[batch, heads, queries], call)?;
    let mut o = output::<f16>(&mut shapes, device, &[batch, heads, queries, columns], call)?;
    let (stream, kernel) = (shapes.stream(device)?, shapes.kernel());
    let slopes = Tensor::<f32>::zeros(device, &[heads])?;
    let bias = Tensor::<f16>::zeros(device, &[1])?;
    let (of_lists, counts) = (Tensor::<i32>::zeros(device, &[1])?, Tensor::<i32>::zeros(device, &[1])?);
    let empty = batch * heads * queries * columns == 0;
    let right = shapes.kind == Wrong::Nothing;
    let surely = shapes.kind == Wrong::Device && (with_table || shapes.wrong != 4)
        || scale.is_some_and(|x| !(x.is_finite() && x > 0.0))
        || splits.is_some_and(|splits| !(1..=1024).contains(&splits))
        || stream.device() != device
        || beside != Nothing
        || kernel.is_some() && !empty
        || block == 0
        || !block.is_multiple_of(64)
        || block >= 1 << 31
        || long && right
        || [0, 257].contains(&columns) && right;
    let mut lists = lists.view()?;
    if long && let Ok(longer) = lists.clone().broadcast(&[batch, kv_heads, queries, most]) {
        lists = longer;
    }
    let (table, slopes, bias) = (table.view()?, slopes.view(), bias.view());
    let (of_lists, counts) = (of_lists.view(), counts.view());
    let options = || {
        let attention = Attention::new().selected_blocks(&lists, block);
        let attention = match beside {
            Nothing => attention,
            Softcap => attention.softcap(1.0),
            Bias => attention.bias(bias.clone()),
            Slopes => attention.alibi_slopes(&slopes),
            Lists => attention.block_lists(&of_lists, &counts, [64, 64]),
            Packed => attention.packed(&counts, &counts, 1),
        };
        let attention = scale.into_iter().fold(attention, Attention::scale);
        let attention = splits.into_iter().fold(attention, Attention::splits);
        let attention = if with_table { attention.block_table(&table) } else { attention };
        kernel.into_iter().fold(attention, Attention::kernel)
    };
    let (q_view, k_view, v) = (q.view()?, k.view()?, v.view()?);
    if overlapping {
        let shape = [batch, heads, queries, columns];
        return overlapped(&k, &shape, call, |o| options().run(&stream, &q_view, &k_view, &v, o));
    }
    let result = {
        let mut rows = lse.view_mut()?;
        let mut attention = options().lse(&mut rows);
        attention.run(&stream, &q_view, &k_view, &v, &mut o.view_mut()?)
    };
    let refused = result.is_err();
    check(result, surely, &o, call)?;
    match refused {
        true => lse.untouched()?,
        false => drop(lse.read()?),
    }
    Ok(())
}
