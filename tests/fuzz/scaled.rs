//! Products of 8 bits with scales, C of 8 bits among them, with its scale and its largest magnitude.

use tilewright::ops::{Activation, ScaledGemm, ScaledInput, ScaledOutput};
use tilewright::{Arch, DType, Device, Element, F8E4M3, F8E5M2, Stream, bf16, f16};
use tilewright_support::Real;
use tilewright_support::activation::exact;
use tilewright_support::random::normal;

use crate::place::{Number, Place, Placed};
use crate::random::Random;
use crate::{Call, Outcome};

pub fn case(random: &mut Random, device: &Device, call: &mut Call) -> Outcome {
    match if device.runs(Arch::Sm90a) { random.below(10) } else { 9 } {
        0..=5 => of::<F8E4M3, F8E4M3, F8E4M3>(random, device, call),
        6 => of::<F8E4M3, F8E4M3, bf16>(random, device, call),
        7 => of::<F8E4M3, F8E5M2, f32>(random, device, call),
        8 => of::<F8E5M2, F8E4M3, f16>(random, device, call),
        _ => of::<i8, i8, bf16>(random, device, call),
    }
}

/// An element of A or B.
trait Value: Element + Number {
    /// What sums of its products lose, of the sum of their magnitudes: tensor cores keep 13 bits of those of 8-bit floats.
    const LOSES: f64;
    fn value(self) -> f64;
    fn near(x: f32) -> Self;
}

macro_rules! values {
    ($($t:ident $loses:expr, $value:expr, $near:expr;)*) => { $(
        impl Value for $t {
            const LOSES: f64 = $loses;
            fn value(self) -> f64 {
                let value: fn($t) -> f64 = $value;
                value(self)
            }
            fn near(x: f32) -> Self {
                let near: fn(f32) -> $t = $near;
                near(x)
            }
        }
    )* };
}
values! {
    F8E4M3 1.0 / 4096.0, |x| x.to_f32().into(), F8E4M3::from_f32;
    F8E5M2 1.0 / 4096.0, |x| x.to_f32().into(), F8E5M2::from_f32;
    i8 1e-7, |x| x.into(), |x| (x * 50.0) as i8;
}

/// Lines from multiples of 16 bytes on.
fn input(random: &mut Random, shape: &[usize]) -> Place {
    let mut place = Place::lines(random, shape, 0);
    place.strides[0] = place.strides[0].next_multiple_of(16);
    place.offset = place.offset.next_multiple_of(16);
    place
}

fn of<A: Value + ScaledInput<B>, B: Value, U: Real + Number + ScaledOutput<Bias: Real + Number>>(
    random: &mut Random,
    device: &Device,
    call: &mut Call,
) -> Outcome {
    let to_range = U::DTYPE == DType::E4M3;
    let [m, n] = [random.size(150), random.size(150)];
    let k = 16 * random.pick(&[0, 1, 2, 5, 8, 9, 16, 25]);
    let places = [input(random, &[m, k]), input(random, &[n, k])];
    let c_place = Place::any(random, &[m, n]);
    let blocks = !to_range && [A::DTYPE, B::DTYPE] == [DType::E4M3; 2] && random.one_in(2);
    let shapes: [Option<Vec<usize>>; 2] = if blocks {
        let of = k.div_ceil(128);
        [Some(vec![m, of]), Some(vec![n.div_ceil(128), of])]
    } else {
        [m, n].map(|lines| random.pick(&[None, Some(vec![1]), Some(vec![lines])]))
    };
    let scale_places = shapes.map(|shape| shape.map(|shape| Place::any(random, &shape)));
    let bias_place = random.one_in(2).then(|| {
        let shape = random.pick(&[vec![n], vec![1], vec![m, 1], vec![m, n]]);
        Place::any(random, &shape)
    });
    let alpha = random.pick(&[1.0f32, 1.0, -0.5, 0.0, 0.01, 10.0]);
    let scale_c = (to_range && random.one_in(2)).then(|| random.pick(&[1.0f32, 0.3, 16.0, -2.0, 0.0]));
    let amax = (to_range && random.one_in(2)).then(|| random.pick(&[0.0f32, 0.0, -1.0, 50.0]));
    let (activation, fast) = (random.pick(&Activation::ALL), random.one_in(3));
    let (overlap, captured, forced) = (random.one_in(2), random.one_in(4), random.next());
    call.set(format!(
        "ScaledGemm<{} by {} to {}>: A {:?}, B {:?}, C {c_place:?}, scales {scale_places:?}, bias {bias_place:?}, alpha {alpha}, activation \
         {activation}, scale of C {scale_c:?}, amax {amax:?}, fast {fast}, overlap {overlap}, captured {captured}",
        A::DTYPE,
        B::DTYPE,
        U::DTYPE,
        places[0],
        places[1]
    ));

    let some = |seed: u64, count: usize| normal::<f32>(forced.wrapping_add(seed), count);
    let a: Vec<_> = some(0, m * k).into_iter().map(A::near).collect();
    let b: Vec<_> = some(1, n * k).into_iter().map(B::near).collect();
    let [a_place, b_place] = places;
    let (a_there, b_there) = (Placed::new(device, a_place, &a)?, Placed::new(device, b_place, &b)?);
    let scales =
        [0, 1].map(|i| scale_places[i].as_ref().map_or(vec![], |place| some(2 + i as u64, place.count())));
    let scale_there = |i: usize| -> tilewright::Result<Option<Placed<f32>>> {
        scale_places[i].clone().map(|place| Placed::new(device, place, &scales[i])).transpose()
    };
    let (of_a, of_b) = (scale_there(0)?, scale_there(1)?);
    let bias = bias_place.map(|place| {
        let elements = normal::<U::Bias>(forced.wrapping_add(4), place.count());
        Placed::new(device, place, &elements)
    });
    let bias = bias.transpose()?;
    let number = |x: Option<f32>| x.map(|x| Placed::new(device, Place::packed(&[1]), &[x])).transpose();
    let (of_c, mut most) = (number(scale_c)?, number(amax)?);
    let mut c = Placed::<U>::poisoned(device, c_place)?;
    let stream = Stream::new(device)?;
    let name = {
        let (a, b, mut c) = (a_there.view()?, b_there.view()?, c.view_mut()?);
        let of_a = of_a.as_ref().map(Placed::view).transpose()?;
        let of_b = of_b.as_ref().map(Placed::view).transpose()?;
        let of_c = of_c.as_ref().map(Placed::view).transpose()?;
        let bias = bias.as_ref().map(Placed::view).transpose()?;
        let mut most = most.as_mut().map(Placed::view_mut).transpose()?;
        let gemm = ScaledGemm::<U>::new().alpha(alpha).activation(activation);
        let gemm = gemm.fast_accumulation(fast).overlap(overlap);
        let gemm = of_a.iter().fold(gemm, ScaledGemm::scale_a);
        let gemm = of_b.iter().fold(gemm, ScaledGemm::scale_b);
        let gemm = of_c.iter().fold(gemm, ScaledGemm::scale_c);
        let gemm = bias.iter().fold(gemm, ScaledGemm::bias);
        let gemm = most.iter_mut().fold(gemm, ScaledGemm::amax);
        let all = gemm.candidates(&a, &b, &c)?;
        let names: Vec<_> =
            all.iter().filter(|kernel| kernel.rejection().is_none()).map(|kernel| kernel.name()).collect();
        assert!(!names.is_empty(), "no kernel for it");
        let name = match forced.is_multiple_of(2) {
            true => names[(forced / 2) as usize % names.len()],
            false => gemm.plan(&a, &b, &c)?.kernel().name(),
        };
        call.add(format!(", kernel {name}"));
        let gemm = gemm.kernel(name);
        if captured {
            let graph = stream.capture(|stream| gemm.run(stream, &a, &b, &mut c))?;
            // SAFETY: the tensors are alive until the stream is done.
            unsafe { graph.launch(&stream)? };
        } else {
            gemm.run(&stream, &a, &b, &mut c)?;
        }
        stream.synchronize()?;
        name
    };

    let out = U::widen(&c.read()?);
    let bias = match &bias {
        None => vec![0.0; m * n],
        Some(bias) => {
            let (elements, shape) = (U::Bias::widen(&bias.values()?), &bias.place.shape);
            let at = |i: usize| match shape.as_slice() {
                [1] => 0,
                [_] => i % n,
                [_, 1] => i / n,
                _ => i,
            };
            (0..m * n).map(|i| elements[at(i)]).collect()
        }
    };
    let of_blocks = k.div_ceil(128);
    let scale = |row: usize, column: usize, block: usize| -> f64 {
        let at = match blocks {
            true => [row * of_blocks + block, column / 128 * of_blocks + block],
            false => [row, column],
        };
        let of = |i: usize| {
            scales[i].get(at[i].min(scales[i].len().saturating_sub(1))).map_or(1.0, |x| f64::from(*x))
        };
        of(0) * of(1)
    };
    let loses = if name.contains("fast") { 16.0 * A::LOSES } else { A::LOSES };
    let (mut largest, mut slack) = (0.0f64, 0.0f64);
    for (at, &got) in out.iter().enumerate() {
        let (row, column) = (at / n, at % n);
        let (a, b) = (&a[row * k..][..k], &b[column * k..][..k]);
        let (mut sum, mut size) = (0.0, 0.0);
        for (block, (a, b)) in a.chunks(128).zip(b.chunks(128)).enumerate() {
            let (scale, products) =
                (scale(row, column, block), || a.iter().zip(b).map(|(a, b)| a.value() * b.value()));
            sum += products().sum::<f64>() * scale;
            size += products().map(f64::abs).sum::<f64>() * scale.abs();
        }
        let (bias, alpha) = (f64::from(bias[at]), f64::from(alpha));
        let x = exact(activation, alpha * sum + bias);
        let before = 1.2 * loses * (alpha * size).abs() + 1e-6 * (1.0 + bias.abs());
        (largest, slack) = (largest.max(x.abs()), slack.max(before));
        let factor = f64::from(scale_c.unwrap_or(1.0));
        let want = if to_range { (x * factor).clamp(-448.0, 448.0) } else { x };
        let bound = U::ROUNDING * want.abs() + (before + 1e-6 * x.abs()) * factor.abs() + U::LEAST;
        let off = (f64::from(got) - want).abs();
        if off.is_nan() || off > bound {
            return Err(format!("C[{row}, {column}] is {got}, must be {want} within {bound:.2e}").into());
        }
    }
    if let (Some(most), Some(before)) = (&most, amax) {
        let got = f64::from(most.read()?[0]);
        let want = if m * n > 0 { largest.max(before.into()) } else { before.into() };
        if (got - want).abs() > slack + 1e-6 * want.abs() {
            return Err(format!("amax is {got}, must be {want} within {slack:.2e}").into());
        }
    }
    Ok(())
}
