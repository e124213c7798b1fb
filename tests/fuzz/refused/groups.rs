//! Products of groups and gated units of them.

use tilewright::ops::{Activation, GroupRows, GroupedGemm};
use tilewright::{Device, f16};

use super::{Shapes, Wrong, check, output, overlapped};
use crate::random::Random;
use crate::{Call, Outcome};

pub fn case(random: &mut Random, device: &Device, call: &mut Call) -> Outcome {
    let (groups, rows, n, k) = (random.within(0..=4), random.size(20), random.size(20), random.size(20));
    let (gated, apart, scaled) = (random.one_in(2), random.one_in(2), random.one_in(2));
    // Of gates and ups, or one too many.
    let odd = gated && random.one_in(6);
    let (columns, overlapping) = (if gated { 2 * n } else { n } + usize::from(odd), random.one_in(8));
    call.set(format!(
        "GroupedGemm gated {gated}, apart {apart}, scales {scaled}, overlapping {overlapping}:"
    ));
    let lines = if apart { vec![groups, rows] } else { vec![rows] };
    let of = |columns: usize| [lines.as_slice(), &[columns]].concat();
    let mut shapes = Shapes::new(random, 5);
    let a = shapes.next::<f16>(device, &of(k), call)?;
    let b = shapes.next::<f16>(device, &[groups, columns, k], call)?;
    let numbers = shapes.next::<i32>(device, &[groups + usize::from(!apart)], call)?;
    let scales = shapes.next::<f32>(device, &lines, call)?;
    let mut c = output::<f16>(&mut shapes, device, &of(n), call)?;
    let (stream, kernel) = (shapes.stream(device)?, shapes.kernel());
    let empty = groups * rows * n == 0;
    let right = shapes.kind == Wrong::Nothing;
    let surely = shapes.kind == Wrong::Device && (scaled || shapes.wrong != 3)
        || stream.device() != device
        || kernel.is_some() && !empty
        || right && (odd || gated && k == 0 && !empty);
    let (a_view, b, scales) = (a.view()?, b.view()?, scales.view()?);
    let b = if b.rank() == 3 { b.transpose(1, 2)? } else { b };
    let numbers = numbers.view()?;
    let by = if apart { GroupRows::counts(numbers) } else { GroupRows::offsets(numbers) };
    let gemm = if gated { GroupedGemm::new().gated(Activation::Silu) } else { GroupedGemm::new() };
    let gemm = if scaled { gemm.scales(&scales) } else { gemm };
    let gemm = kernel.into_iter().fold(gemm, GroupedGemm::kernel);
    if overlapping {
        return overlapped(&a, &of(n), call, |c| gemm.run(&stream, &a_view, &b, &by, c));
    }
    let result = gemm.run(&stream, &a_view, &b, &by, &mut c.view_mut()?);
    check(result, surely, &c, call)
}
