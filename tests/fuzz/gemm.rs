//! Products C = act(alpha A B + beta C + bias).

use tilewright::ops::{Activation, FloatElement, Gemm, GemmInput};
use tilewright::{Device, Stream, TensorView, bf16, f16};
use tilewright_support::Real;
use tilewright_support::activation::{self, STEEPEST};
use tilewright_support::random::normal;

use crate::place::{Number, Place, Placed};
use crate::random::Random;
use crate::{Call, Outcome};

pub fn case(random: &mut Random, device: &Device, call: &mut Call) -> Outcome {
    match random.below(7) {
        0 => of::<f16, f16>(random, device, call),
        1 => of::<f16, f32>(random, device, call),
        2 => of::<f16, bf16>(random, device, call),
        3 => of::<bf16, bf16>(random, device, call),
        4 => of::<bf16, f32>(random, device, call),
        5 => of::<f32, f32>(random, device, call),
        _ => of::<bf16, f16>(random, device, call),
    }
}

/// An input's matrices, of which there may be one for all.
fn matrices(random: &mut Random, batch: Option<usize>, [rows, cols]: [usize; 2]) -> Place {
    match batch.filter(|_| !random.one_in(4)) {
        None => Place::any(random, &[rows, cols]),
        Some(batch) => {
            let place = Place::any(random, &[batch, rows, cols]);
            if random.one_in(5) { place.repeating(0) } else { place }
        }
    }
}

/// A shape that broadcasts to C's.
fn bias_shape(random: &mut Random, c: &[usize]) -> Vec<usize> {
    let rank = random.within(1..=c.len());
    let of = &c[c.len() - rank..];
    of.iter().enumerate().map(|(i, &n)| if i + 1 < rank && random.one_in(2) { 1 } else { n }).collect()
}

fn of<T: Real + Number + GemmInput, U: Real + Number + FloatElement>(
    random: &mut Random,
    device: &Device,
    call: &mut Call,
) -> Outcome {
    let [m, n, k] = [random.size(150), random.size(150), random.size(200)];
    let batch = random.one_in(3).then(|| random.within(1..=3));
    let places = [matrices(random, batch, [m, k]), matrices(random, batch, [k, n])];
    let shape: Vec<usize> = batch.into_iter().chain([m, n]).collect();
    let c_place = Place::any(random, &shape);
    let alpha = random.pick(&[1.0f32, 1.0, 0.0, -0.5, 3.0, 1e-3]);
    let beta = random.pick(&[0.0f32, 0.0, 1.0, -2.0, 0.25]);
    let bias_place = random.one_in(2).then(|| {
        let shape = bias_shape(random, &shape);
        Place::any(random, &shape)
    });
    let (activation, overlap, captured) = (random.pick(&Activation::ALL), random.one_in(2), random.one_in(4));
    let forced = random.next();
    call.set(format!(
        "Gemm<{} to {}>: A {:?}, B {:?}, C {c_place:?}, bias {bias_place:?}, alpha {alpha}, beta {beta}, activation \
         {activation}, overlap {overlap}, captured {captured}",
        T::DTYPE,
        U::DTYPE,
        places[0],
        places[1]
    ));

    let [a, b] = [0, 1].map(|i| {
        let elements = normal::<T>(forced.wrapping_add(i as u64), places[i].count());
        Placed::new(device, places[i].clone(), &elements)
    });
    let (a, b) = (a?, b?);
    let old = normal::<U>(forced.wrapping_add(7), c_place.count());
    let mut c = match beta {
        0.0 => Placed::poisoned(device, c_place)?,
        _ => Placed::new(device, c_place, &old)?,
    };
    let bias_elements = bias_place.as_ref().map(|place| normal::<U>(forced.wrapping_add(9), place.count()));
    let bias = match (bias_place, &bias_elements) {
        (Some(place), Some(elements)) => Some(Placed::new(device, place, elements)?),
        _ => None,
    };
    let bias_view = bias.as_ref().map(|bias| bias.view()).transpose()?;
    let stream = Stream::new(device)?;
    {
        let (a, b, mut c) = (a.view()?, b.view()?, c.view_mut()?);
        let gemm = Gemm::<U>::new().alpha(alpha).beta(beta).overlap(overlap);
        let plain = match &bias_view {
            Some(bias) => gemm.bias(bias),
            None => gemm,
        };
        let gemm = plain.activation(activation);
        let mut names = Vec::new();
        if !c.is_empty() && forced.is_multiple_of(2) {
            let all = gemm.candidates(&a, &b, &c)?;
            // A captured call has no memory for the sums of tiles that CTAs divide, which products of f32 alone do without.
            let runs = |name: &str| !captured || !name.ends_with("sk") || name.contains("_f32_f32_");
            let able = all.iter().filter(|kernel| kernel.rejection().is_none()).map(|kernel| kernel.name());
            names.extend(able.filter(|name| runs(name)));
            assert!(!names.is_empty(), "no kernel for it");
        }
        let gemm = match names.as_slice() {
            [] => gemm,
            names => {
                let name = names[(forced / 2) as usize % names.len()];
                call.add(format!(", kernel {name}"));
                gemm.kernel(name)
            }
        };
        if captured {
            let graph = stream.capture(|stream| gemm.run(stream, &a, &b, &mut c))?;
            // SAFETY: the tensors are alive until the stream is done.
            unsafe { graph.launch(&stream)? };
            stream.synchronize()?;
        } else {
            gemm.run(&stream, &a, &b, &mut c)?;
        }
    }
    stream.synchronize()?;

    let out = U::widen(&c.read()?);
    let (a, b) = (Wide::new(&a.view()?)?, Wide::new(&b.view()?)?);
    let (old, bias) = (U::widen(&old), bias_view.as_ref().map(Wide::new).transpose()?);
    for (at, &got) in out.iter().enumerate() {
        let place = [at / n / m, at / n % m, at % n];
        let row = (0..k).map(|x| a.at([place[0], place[1], x]));
        let terms = row.zip((0..k).map(|x| b.at([place[0], x, place[2]])));
        let (mut sum, mut squares) = (0.0, [0.0; 2]);
        for (a, b) in terms {
            sum += a * b;
            squares = [squares[0] + a * a, squares[1] + b * b];
        }
        let size = (squares[0] * squares[1]).sqrt() * (3e-7 + 8e-8 * (k as f64).sqrt());
        let scaled = f64::from(alpha) * sum;
        let kept = if beta == 0.0 { 0.0 } else { f64::from(beta) * f64::from(old[at]) };
        let bias = bias.as_ref().map_or(0.0, |bias| bias.at(place));
        let x = scaled + kept + bias;
        let before = f64::from(alpha.abs()) * size + 4e-7 * (scaled.abs() + kept.abs() + bias.abs());
        let exact = activation::exact(activation, x);
        let after = STEEPEST * before + 1e-6 * x.abs();
        let bound = after + U::ROUNDING * (exact.abs() + after) + 3e-8;
        let off = (f64::from(got) - exact).abs();
        if off.is_nan() || off > bound {
            return Err(format!("C{place:?} is {got}, must be {exact} within {bound:.2e}").into());
        }
    }
    Ok(())
}

/// A view's elements, which repeat in dimensions of size 1 and in missing ones.
struct Wide {
    shape: [usize; 3],
    elements: Vec<f32>,
}

impl Wide {
    fn new<T: Real>(view: &TensorView<'_, T>) -> tilewright::Result<Self> {
        let mut shape = [1; 3];
        shape[3 - view.rank()..].copy_from_slice(view.shape());
        Ok(Self { shape, elements: T::widen(&view.to_vec()?) })
    }

    fn at(&self, place: [usize; 3]) -> f64 {
        let [b, row, col] = [0, 1, 2].map(|dim| place[dim].min(self.shape[dim] - 1));
        self.elements[(b * self.shape[1] + row) * self.shape[2] + col].into()
    }
}
