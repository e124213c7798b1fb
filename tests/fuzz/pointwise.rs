//! Pointwise operators, against f64.

use tilewright::ops::{
    Activation, Binary, Cast, CastElement, Elementwise, Embedding, FloatElement, Gated, Pairs, Rope, Ternary,
    Transpose, Unary,
};
use tilewright::{DType, Device, F8E4M3, F8E5M2, Stream, TensorView, bf16, f16};
use tilewright_support::random::normal;
use tilewright_support::{Real, activation};

use crate::place::{Number, Place, Placed};
use crate::random::Random;
use crate::{Call, Outcome};

/// An element type of these operators.
trait Float: Real + Number + FloatElement + CastElement {}

impl<T: Real + Number + FloatElement + CastElement> Float for T {}

pub fn case(random: &mut Random, device: &Device, call: &mut Call) -> Outcome {
    match random.below(3) {
        0 => of::<f16>(random, device, call),
        1 => of::<bf16>(random, device, call),
        _ => of::<f32>(random, device, call),
    }
}

fn of<T: Float>(random: &mut Random, device: &Device, call: &mut Call) -> Outcome {
    match random.below(8) {
        0 => elementwise::<T, T>(random, device, call),
        1 => elementwise::<T, f32>(random, device, call),
        2 => elementwise::<T, f16>(random, device, call),
        3 => transpose::<T>(random, device, call),
        4 => embedding::<T>(random, device, call),
        5 => gated::<T>(random, device, call),
        6 if random.one_in(2) => eight_bits::<T, F8E4M3>(random, device, call, F8E4M3::from_f32),
        6 => eight_bits::<T, F8E5M2>(random, device, call, F8E5M2::from_f32),
        _ => rope::<T>(random, device, call),
    }
}

/// A shape of up to so many dimensions.
fn shape(random: &mut Random, most: usize) -> Vec<usize> {
    let rank = random.within(0..=most);
    (0..rank).map(|dim| random.size(if dim + 1 == rank { 200 } else { 12 })).collect()
}

/// The kernels that can compute a call, one of which is forced in half of the cases.
fn forced<'a>(random: &mut Random, names: Vec<&'a str>, call: &mut Call) -> Option<&'a str> {
    assert!(!names.is_empty(), "no kernel for it");
    let name = random.one_in(2).then(|| random.pick(&names));
    call.add(format!(", kernel {name:?}"));
    name
}

/// The names of those that are not rejected.
macro_rules! possible {
    ($candidates:expr) => {
        $candidates?.iter().filter(|k| k.rejection().is_none()).map(|k| k.name()).collect::<Vec<_>>()
    };
}

fn wide<T: Float>(view: &TensorView<'_, T>) -> tilewright::Result<Vec<f64>> {
    Ok(T::widen(&view.to_vec()?).into_iter().map(f64::from).collect())
}

/// An error unless results are within what rounding and `error` leave of the exact ones.
fn near<U: Float>(y: &Placed<U>, exact: &[f64], error: impl Fn(usize) -> f64) -> Outcome {
    for (at, (&got, &exact)) in U::widen(&y.read()?).iter().zip(exact).enumerate() {
        let largest = if U::DTYPE == DType::F16 { 65519.9 } else { f64::from(f32::MAX) };
        let exact = if exact.abs() > largest { exact * f64::INFINITY } else { exact };
        let (got, bound) = (f64::from(got), exact.abs() * U::ROUNDING + 2.0 * U::LEAST + error(at));
        if !(got == exact || (got.is_nan() && exact.is_nan()) || (got - exact).abs() <= bound) {
            return Err(format!("element {at} is {got:e}, must be {exact:e} within {bound:.2e}").into());
        }
    }
    Ok(())
}

/// To fp8 and back, exactly.
fn eight_bits<T: Float, U: CastElement + Number>(
    random: &mut Random,
    device: &Device,
    call: &mut Call,
    nearest: impl Fn(f32) -> U,
) -> Outcome {
    let shape = shape(random, 5);
    let [from, to, back] = [0; 3].map(|_| Place::any(random, &shape));
    call.set(format!("Cast of {} {from:?} to {} {to:?} and back to {back:?}", T::DTYPE, U::DTYPE));
    let scale = random.pick(&[1.0, 1e-3, 300.0]);
    let values: Vec<_> = normal::<f32>(random.next(), from.count()).iter().map(|x| x * scale).collect();
    let x = Placed::new(device, from, &T::round(&values))?;
    let (mut y, mut z) = (Placed::<U>::poisoned(device, to)?, Placed::<T>::poisoned(device, back)?);
    let stream = Stream::new(device)?;
    let name = forced(random, possible!(Cast::new().candidates(&x.view()?, &y.view_mut()?)), call);
    name.into_iter().fold(Cast::new(), Cast::kernel).run(&stream, &x.view()?, &mut y.view_mut()?)?;
    Cast::new().run(&stream, &y.view()?, &mut z.view_mut()?)?;
    let exact: Vec<_> = T::widen(&x.values()?).into_iter().map(nearest).collect();
    let wide = Placed::<U>::new(device, Place::packed(&[exact.len()]), &exact)?;
    let mut back = Placed::<f32>::poisoned(device, Place::packed(&[exact.len()]))?;
    Cast::new().run(&stream, &wide.view()?, &mut back.view_mut()?)?;
    match y.read()? == exact && T::widen(&z.read()?) == T::widen(&T::round(&back.read()?)) {
        true => Ok(()),
        false => Err(format!("{:?} and back {:?}, must be {exact:?}", y.read()?, z.read()?).into()),
    }
}

fn elementwise<T: Float, U: Float>(random: &mut Random, device: &Device, call: &mut Call) -> Outcome {
    let (shape, inputs) = (shape(random, 5), random.within(1..=3));
    let (unary, binary) = (random.pick(Unary::ALL), random.pick(&Binary::ALL[..6]));
    let (ternary, cast) = (random.pick(Ternary::ALL), inputs == 1 && random.one_in(3));
    let [scale, bias] =
        [1.0, random.pick(&[0.0f32, 0.5])].map(|x: f32| x * random.pick(&[1.0f32, 2.0, -0.25]));
    let stretched = |random: &mut Random| {
        let missing = if random.one_in(3) { random.within(0..=shape.len()) } else { 0 };
        let dims = shape[missing..].iter().map(|&n| if random.one_in(5) { 1 } else { n });
        dims.collect::<Vec<_>>()
    };
    let places: Vec<_> = (0..inputs)
        .map(|_| {
            let shape = stretched(random);
            Place::any(random, &shape)
        })
        .collect();
    let to = Place::any(random, &shape);
    let what = match inputs {
        _ if cast => "Cast".to_owned(),
        1 => format!("{unary:?}"),
        2 => format!("{binary:?}"),
        _ => format!("{ternary:?}"),
    };
    call.set(format!("{what} of {} to {} {places:?} to {to:?}, {scale} f + {bias}", T::DTYPE, U::DTYPE));
    let seed = random.next();
    let tensors = places
        .into_iter()
        .enumerate()
        .map(|(i, place)| {
            let values = normal::<T>(seed.wrapping_add(i as u64), place.count());
            Placed::new(device, place, &values)
        })
        .collect::<Result<Vec<_>, _>>()?;
    let views = tensors.iter().map(Placed::view).collect::<Result<Vec<_>, _>>()?;
    let (mut y, stream) = (Placed::<U>::poisoned(device, to)?, Stream::new(device)?);
    {
        let mut y = y.view_mut()?;
        macro_rules! run {
            ($operator:expr, $inputs:expr) => {{
                let operator = $operator;
                let name = forced(random, possible!(operator.candidates($inputs, &y)), call);
                name.into_iter()
                    .fold(operator, |operator, name| operator.kernel(name))
                    .run(&stream, $inputs, &mut y)?
            }};
        }
        match inputs {
            _ if cast => {
                let name = forced(random, possible!(Cast::new().candidates(&views[0], &y)), call);
                name.into_iter().fold(Cast::new(), Cast::kernel).run(&stream, &views[0], &mut y)?
            }
            1 => run!(Elementwise::new(unary).scale(scale).bias(bias), [&views[0]]),
            2 => run!(Elementwise::new(binary).scale(scale).bias(bias), [&views[0], &views[1]]),
            _ => run!(Elementwise::new(ternary).scale(scale).bias(bias), [&views[0], &views[1], &views[2]]),
        }
    }
    stream.synchronize()?;
    let inputs = views
        .into_iter()
        .map(|view| wide(&view.broadcast(&shape)?))
        .collect::<Result<Vec<_>, tilewright::Error>>()?;
    let at = |k: usize, i: usize| inputs[k][i];
    let value = |i: usize| match inputs.len() {
        _ if cast => at(0, i),
        1 => of_one(unary, at(0, i)),
        2 => of_two(binary, at(0, i), at(1, i)),
        _ if ternary == Ternary::MulAdd => at(0, i) * at(1, i) + at(2, i),
        _ if at(0, i) != 0.0 => at(1, i),
        _ => at(2, i),
    };
    let [scale, bias] = if cast { [1.0, 0.0] } else { [scale, bias].map(f64::from) };
    let exact: Vec<f64> = (0..shape.iter().product()).map(|i| scale * value(i) + bias).collect();
    near(&y, &exact, |i| 2e-6 * (scale * value(i)).abs().max(1.0))
}

fn of_one(f: Unary, x: f64) -> f64 {
    let of = |activation| activation::exact(activation, x);
    match f {
        Unary::Identity => x,
        Unary::Neg => -x,
        Unary::Abs => x.abs(),
        Unary::Square => x * x,
        Unary::Exp => x.exp(),
        Unary::Log => x.ln(),
        Unary::Sqrt => x.sqrt(),
        Unary::Rsqrt => 1.0 / x.sqrt(),
        Unary::Recip => 1.0 / x,
        Unary::Sin => x.sin(),
        Unary::Cos => x.cos(),
        Unary::Tanh => x.tanh(),
        Unary::Sigmoid => 1.0 / (1.0 + (-x).exp()),
        Unary::Relu => of(Activation::Relu),
        Unary::Gelu => of(Activation::Gelu),
        Unary::Silu => of(Activation::Silu),
    }
}

fn of_two(f: Binary, a: f64, b: f64) -> f64 {
    match f {
        Binary::Add => a + b,
        Binary::Sub => a - b,
        Binary::Mul => a * b,
        Binary::Div => a / b,
        Binary::Max => a.max(b),
        Binary::Min => a.min(b),
        Binary::Pow => a.powf(b),
    }
}

fn transpose<T: Float>(random: &mut Random, device: &Device, call: &mut Call) -> Outcome {
    let shape = shape(random, 5);
    let dims = random.shuffled(shape.len());
    let from = Place::any(random, &shape);
    let to = Place::any(random, &dims.iter().map(|&dim| shape[dim]).collect::<Vec<_>>());
    call.set(format!("Transpose<{}> {dims:?}: {from:?} to {to:?}", T::DTYPE));
    let x = Placed::new(device, from, &normal::<T>(random.next(), shape.iter().product()))?;
    let (mut y, stream) = (Placed::<T>::poisoned(device, to)?, Stream::new(device)?);
    let operator = Transpose::new(&dims);
    let name = forced(random, possible!(operator.candidates(&x.view()?, &y.view_mut()?)), call);
    let operator = name.into_iter().fold(operator, |operator, name| operator.kernel(name));
    operator.run(&stream, &x.view()?, &mut y.view_mut()?)?;
    stream.synchronize()?;
    // Dimensions exchanged one after the other lead to the same order.
    let (mut view, mut order) = (x.view()?, (0..dims.len()).collect::<Vec<_>>());
    for (i, dim) in dims.iter().enumerate() {
        let at = order.iter().position(|other| other == dim).unwrap_or(i);
        view = view.transpose(i, at)?;
        order.swap(i, at);
    }
    near(&y, &wide(&view)?, |_| 0.0)
}

fn embedding<T: Float>(random: &mut Random, device: &Device, call: &mut Call) -> Outcome {
    let (rows, cols, of) = (random.within(0..=20), random.size(200), shape(random, 3));
    let from = Place::any(random, &[rows, cols]);
    let to = Place::any(random, &of.iter().copied().chain([cols]).collect::<Vec<_>>());
    let places = Place::any(random, &of);
    call.set(format!("Embedding<{}> {from:?} by {places:?} to {to:?}", T::DTYPE));
    let values = normal::<T>(random.next(), rows * cols);
    let indices: Vec<i32> = (0..places.count())
        .map(|_| {
            if random.one_in(9) {
                random.pick(&[-1, i32::MIN, i32::MAX, rows as i32])
            } else {
                random.below(rows.max(1)) as i32
            }
        })
        .collect();
    let (table, at) = (Placed::new(device, from, &values)?, Placed::new(device, places, &indices)?);
    let (mut y, stream) = (Placed::<T>::poisoned(device, to)?, Stream::new(device)?);
    let operator = Embedding::new();
    let name =
        forced(random, possible!(operator.candidates(&table.view()?, &at.view()?, &y.view_mut()?)), call);
    let operator = name.into_iter().fold(operator, |operator, name| operator.kernel(name));
    operator.run(&stream, &table.view()?, &at.view()?, &mut y.view_mut()?)?;
    stream.synchronize()?;
    let wide = T::widen(&values);
    let row = |&index: &i32| match usize::try_from(index) {
        Ok(row) if row < rows => wide[row * cols..][..cols].iter().map(|&x| f64::from(x)).collect(),
        _ => vec![f64::NAN; cols],
    };
    near(&y, &indices.iter().flat_map(row).collect::<Vec<_>>(), |_| 0.0)
}

fn gated<T: Float>(random: &mut Random, device: &Device, call: &mut Call) -> Outcome {
    let (shape, activation) = (shape(random, 4), random.pick(&Activation::ALL));
    let [gate, up, to] = [0; 3].map(|_| Place::any(random, &shape));
    call.set(format!("Gated<{}> {activation}: {gate:?}, {up:?} to {to:?}", T::DTYPE));
    let [gate, up] = [gate, up].map(|place| {
        let values = normal::<T>(random.next(), place.count());
        Placed::new(device, place, &values)
    });
    let (gate, up) = (gate?, up?);
    let (mut y, stream) = (Placed::<T>::poisoned(device, to)?, Stream::new(device)?);
    let operator = Gated::new(activation);
    let name =
        forced(random, possible!(operator.candidates(&gate.view()?, &up.view()?, &y.view_mut()?)), call);
    let operator = name.into_iter().fold(operator, |operator, name| operator.kernel(name));
    operator.run(&stream, &gate.view()?, &up.view()?, &mut y.view_mut()?)?;
    stream.synchronize()?;
    let (gate, up) = (wide(&gate.view()?)?, wide(&up.view()?)?);
    let exact: Vec<f64> =
        gate.iter().zip(&up).map(|(&gate, up)| activation::exact(activation, gate) * up).collect();
    near(&y, &exact, |i| 2e-6 * up[i].abs().max(exact[i].abs()))
}

fn rope<T: Float>(random: &mut Random, device: &Device, call: &mut Call) -> Outcome {
    let shape = [random.size(9), random.within(1..=9), random.size(150)];
    let [_, heads, cols] = shape;
    let (pairs, first) = (random.pick(&[Pairs::Interleaved, Pairs::Halves]), random.below(5000));
    let part = 2 * random.below(cols / 2 + 1);
    let (from, to) = (Place::any(random, &shape), Place::any(random, &shape));
    call.set(format!("Rope<{}> {pairs:?}, {part} columns from {first}: {from:?} to {to:?}", T::DTYPE));
    let x = Placed::new(device, from, &normal::<T>(random.next(), shape.iter().product()))?;
    let (mut y, stream) = (Placed::<T>::poisoned(device, to)?, Stream::new(device)?);
    let operator = Rope::new(pairs).columns(part).offset(first as i32);
    let name = forced(random, possible!(operator.candidates(&x.view()?, &y.view_mut()?)), call);
    let operator = name.into_iter().fold(operator, |operator, name| operator.kernel(name));
    operator.run(&stream, &x.view()?, &mut y.view_mut()?)?;
    stream.synchronize()?;
    let mut exact = wide(&x.view()?)?;
    for (row, line) in exact.chunks_mut(cols.max(1)).enumerate() {
        for pair in 0..part / 2 {
            let angle = (first + row / heads) as f64 * 1e4f64.powf(-2.0 * pair as f64 / part as f64);
            let [a, b] = match pairs {
                Pairs::Interleaved => [2 * pair, 2 * pair + 1],
                Pairs::Halves => [pair, pair + part / 2],
            };
            let (sin, cos) = angle.sin_cos();
            (line[a], line[b]) = (line[a] * cos - line[b] * sin, line[b] * cos + line[a] * sin);
        }
    }
    near(&y, &exact, |_| 5e-6)
}
