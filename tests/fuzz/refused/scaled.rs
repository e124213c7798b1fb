//! Products of 8-bit floats to 8 bits, with their scale and their largest magnitude.

use tilewright::ops::ScaledGemm;
use tilewright::{Arch, Device, F8E4M3, bf16};

use super::{Shapes, Wrong, check, output, overlapped};
use crate::random::Random;
use crate::{Call, Outcome};

pub fn case(random: &mut Random, device: &Device, call: &mut Call) -> Outcome {
    let [m, n, k] = [random.size(20), random.size(20), random.pick(&[0, 16, 32, 144, 17, 8])];
    let (precise, overlapping, blocks) = (random.one_in(10), random.one_in(8), random.one_in(6));
    let [with_scales, with_scale, with_amax, with_bias] = [(); 4].map(|()| random.one_in(2));
    call.set(format!(
        "ScaledGemm to e4m3 [m, n, k] [{m}, {n}, {k}], scales {with_scales}, of blocks {blocks}, scale of C {with_scale}, amax {with_amax}, bias \
         {with_bias}, precise {precise}, overlapping {overlapping}:"
    ));
    let of_k = k.div_ceil(128);
    let [of_a, of_b] = if blocks { [vec![m, of_k], vec![n.div_ceil(128), of_k]] } else { [vec![m], vec![n]] };
    let mut shapes = Shapes::new(random, 8);
    let a = shapes.next::<F8E4M3>(device, &[m, k], call)?;
    let b = shapes.next::<F8E4M3>(device, &[n, k], call)?;
    let of_a = shapes.next::<f32>(device, &of_a, call)?;
    let of_b = shapes.next::<f32>(device, &of_b, call)?;
    let scale = shapes.next::<f32>(device, &[1], call)?;
    let bias = shapes.next::<bf16>(device, &[n], call)?;
    let mut amax = output::<f32>(&mut shapes, device, &[1], call)?;
    let mut c = output::<F8E4M3>(&mut shapes, device, &[m, n], call)?;
    let (stream, kernel) = (shapes.stream(device)?, shapes.kernel());
    let used = match shapes.wrong {
        2 | 3 => with_scales,
        4 => with_scale,
        5 => with_bias,
        6 => with_amax,
        _ => true,
    };
    let right = shapes.kind == Wrong::Nothing;
    let surely = shapes.kind == Wrong::Device && used
        || stream.device() != device
        || precise
        || !device.runs(Arch::Sm90a)
        || kernel.is_some() && m * n > 0
        || right && [17, 8].contains(&k);
    let (a_view, b, of_a, of_b) = (a.view()?, b.view()?, of_a.view()?, of_b.view()?);
    let (scale, bias) = (scale.view()?, bias.view()?);
    let result = {
        let mut most = amax.view_mut()?;
        let gemm = ScaledGemm::<F8E4M3>::new().precise(precise);
        let gemm = if with_scales { gemm.scale_a(&of_a).scale_b(&of_b) } else { gemm };
        let gemm = if with_scale { gemm.scale_c(&scale) } else { gemm };
        let gemm = if with_bias { gemm.bias(&bias) } else { gemm };
        let gemm = if with_amax { gemm.amax(&mut most) } else { gemm };
        let gemm = kernel.into_iter().fold(gemm, ScaledGemm::kernel);
        if overlapping {
            return overlapped(&a, &[m, n], call, |c| gemm.run(&stream, &a_view, &b, c));
        }
        gemm.run(&stream, &a_view, &b, &mut c.view_mut()?)
    };
    if result.is_err() || !with_amax {
        amax.untouched()?;
    }
    check(result, surely, &c, call)
}
