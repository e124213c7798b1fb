//! Calls that are wrong, or may be: an error, and nothing written; or nothing written outside of the output.

mod groups;
mod mla;
mod reduce;
mod rows;
mod scaled;
mod selected;

use tilewright::ops::{
    Attention, Binary, Cast, DequantGemm, DequantGemmInt8, DeviceWeights, Elementwise, Embedding, Gemm,
    Pairs, Rope, Transpose,
};
use tilewright::quant::{Format, Group, HalfType, Order, QuantizedWeights, Scheme, Zeros};
use tilewright::{Device, Result, Stream, Tensor, TensorViewMut, f16};

use crate::place::{Number, Place, Placed};
use crate::random::Random;
use crate::{Call, Outcome};

pub fn case(random: &mut Random, device: &Device, call: &mut Call) -> Outcome {
    match random.below(11) {
        0 => gemm(random, device, call),
        1 => attention(random, device, call),
        2 => mla::case(random, device, call),
        3 => dequant(random, device, call),
        4 => pointwise(random, device, call),
        5 => rows::case(random, device, call),
        6 => reduce::case(random, device, call),
        7 => selected::case(random, device, call),
        8 => groups::case(random, device, call),
        9 => scaled::case(random, device, call),
        _ => int8(random, device, call),
    }
}

/// What may be wrong with a tensor.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Wrong {
    Nothing,
    /// Its shape is another.
    Shape,
    /// It lies on another device.
    Device,
}

/// A call's tensors: shapes, of which at most one is wrong, mostly.
struct Shapes<'a> {
    random: &'a mut Random,
    wrong: usize,
    kind: Wrong,
    made: usize,
    /// Another device than the call's.
    other: Device,
}

impl<'a> Shapes<'a> {
    /// Of `count` tensors.
    fn new(random: &'a mut Random, count: usize) -> Self {
        let wrong = random.below(count + 1);
        let kind = random.pick(&[Wrong::Shape, Wrong::Shape, Wrong::Device]);
        let kind = if wrong == count { Wrong::Nothing } else { kind };
        Self { random, wrong, kind, made: 0, other: Device::emulator_with_seed(u64::MAX) }
    }

    /// The next tensor, which should be of this shape.
    fn next<T: Number>(&mut self, device: &Device, shape: &[usize], call: &mut Call) -> Result<Placed<T>> {
        let wrong = if self.made == self.wrong { self.kind } else { Wrong::Nothing };
        self.made += 1;
        let (device, shape) = match wrong {
            Wrong::Nothing => (device, shape.to_vec()),
            Wrong::Shape => (device, self.mutated(shape)),
            Wrong::Device => (&self.other.clone(), shape.to_vec()),
        };
        let place = Place::any(self.random, &shape);
        call.add(format!(" {wrong:?} {place:?}"));
        let count = place.count();
        let zeros = if wrong == Wrong::Nothing { vec![T::default(); count] } else { vec![T::POISON; count] };
        Placed::new(device, place, &zeros)
    }

    fn mutated(&mut self, shape: &[usize]) -> Vec<usize> {
        let mut shape = shape.to_vec();
        for _ in 0..self.random.within(1..=2) {
            let at = self.random.below(shape.len().max(1));
            match self.random.below(5) {
                0 if !shape.is_empty() => drop(shape.remove(at)),
                1 if shape.len() < tilewright::MAX_RANK => shape.insert(at, self.random.pick(&[0, 1, 2, 3])),
                _ if !shape.is_empty() => {
                    let sizes = [0, 1, 2, 7, 64, shape[at] + 1, shape[at].saturating_sub(1), 2 * shape[at]];
                    shape[at] = self.random.pick(&sizes);
                }
                _ => {}
            }
        }
        shape
    }

    /// The stream, or another device's.
    fn stream(&mut self, device: &Device) -> Result<Stream> {
        if self.random.one_in(10) {
            return Stream::new(&self.other);
        }
        Stream::new(device)
    }

    /// A kernel's name, if one is asked for: there is none of it.
    fn kernel(&mut self) -> Option<&'static str> {
        self.random.one_in(8).then(|| self.random.pick(&["", "gemm_sm_80", "none such"]))
    }
}

/// Compares what came of a call, which may be `surely` wrong, with its output.
fn check<T: Number>(result: Result<()>, surely: bool, output: &Placed<T>, call: &mut Call) -> Outcome {
    match result {
        Err(error) => {
            call.add(format!(": {error}"));
            output.untouched()?;
        }
        Ok(()) if surely => return Err("it was not refused".into()),
        Ok(()) => drop(output.read()?),
    }
    Ok(())
}

/// Runs a call with an output of this shape in the memory of an input, which must be refused.
fn overlapped<T: Number>(
    input: &Placed<T>,
    shape: &[usize],
    call: &mut Call,
    run: impl FnOnce(&mut TensorViewMut<'_, T>) -> Result<()>,
) -> Outcome {
    let (view, before) = (input.view()?, input.bits()?);
    let strides = Place::packed(shape).strides;
    // SAFETY: no call may use it, and nothing else does.
    let inside = unsafe { TensorViewMut::from_raw_parts(view.device(), view.address(), shape, &strides) };
    let Ok(mut inside) = inside else { return Ok(()) };
    call.add(format!(", the output {inside:?} in an input's memory"));
    // One without elements may have an output in the block around it, and beyond.
    if !inside.overlaps(&view) {
        return Ok(());
    }
    let result = run(&mut inside);
    assert_eq!(input.bits()?, before, "an input was written");
    match result {
        Ok(()) => Err("an output that overlaps an input was not refused".into()),
        Err(_) => Ok(()),
    }
}

/// A number for options, of which some are none that make sense.
fn factor(random: &mut Random) -> f32 {
    random.pick(&[0.0, -1.0, f32::NAN, f32::INFINITY, 1e-45, 1e-30, 1e30, f32::MAX, 0.1, 1.0])
}

/// The next tensor, poisoned all over.
fn output<T: Number>(
    shapes: &mut Shapes<'_>,
    device: &Device,
    shape: &[usize],
    call: &mut Call,
) -> Result<Placed<T>> {
    let Placed { place, .. } = shapes.next::<T>(device, shape, call)?;
    let elsewhere = shapes.made == shapes.wrong + 1 && shapes.kind == Wrong::Device;
    Placed::poisoned(if elsewhere { &shapes.other } else { device }, place)
}

fn gemm(random: &mut Random, device: &Device, call: &mut Call) -> Outcome {
    let [m, n, k] = [random.size(20), random.size(20), random.size(20)];
    let (alpha, beta, batch) = (factor(random), random.pick(&[0.0, 1.0]), random.one_in(2));
    let (overlapping, with_bias) = (random.one_in(8), random.one_in(2));
    call.set(format!(
        "Gemm [m, n, k] [{m}, {n}, {k}], alpha {alpha}, beta {beta}, overlapping {overlapping}:"
    ));
    let mut shapes = Shapes::new(random, 4);
    let shape = |rows: usize, cols: usize| if batch { vec![2, rows, cols] } else { vec![rows, cols] };
    let a = shapes.next::<f16>(device, &shape(m, k), call)?;
    let b = shapes.next::<f16>(device, &shape(k, n), call)?;
    let bias = shapes.next::<f16>(device, &[n], call)?;
    let mut c = output::<f16>(&mut shapes, device, &shape(m, n), call)?;
    let (stream, kernel) = (shapes.stream(device)?, shapes.kernel());
    let elsewhere = shapes.kind == Wrong::Device && (with_bias || shapes.wrong != 2);
    let surely = elsewhere || stream.device() != device || kernel.is_some() && m * n > 0;
    let (bias_view, a_view) = (bias.view()?, a.view()?);
    let gemm = Gemm::<f16>::new().alpha(alpha).beta(beta);
    let gemm = if with_bias { gemm.bias(&bias_view) } else { gemm };
    let gemm = kernel.into_iter().fold(gemm, Gemm::kernel);
    let b = b.view()?;
    if overlapping {
        return overlapped(&a, &[m, n], call, |inside| gemm.run(&stream, &a_view, &b, inside));
    }
    let result = gemm.run(&stream, &a_view, &b, &mut c.view_mut()?);
    check(result, surely, &c, call)
}

fn pointwise(random: &mut Random, device: &Device, call: &mut Call) -> Outcome {
    let shape = [random.size(9), random.size(9), random.size(40)];
    let (kind, overlapping, columns) =
        (random.below(5), random.one_in(8), random.pick(&[0, 2, 3, 64, usize::MAX - 1]));
    let dims = random.pick(&[&[0, 1, 2][..], &[2, 1, 0], &[0, 0, 1], &[0, 1], &[3, 1, 2]]);
    call.set(format!("pointwise operator {kind}, {dims:?}, {columns} columns, overlapping {overlapping}:"));
    let mut shapes = Shapes::new(random, 3);
    let a = shapes.next::<f16>(device, &shape, call)?;
    let b = shapes.next::<f16>(device, &shape, call)?;
    let mut y = output::<f16>(&mut shapes, device, &shape, call)?;
    let (stream, kernel) = (shapes.stream(device)?, shapes.kernel());
    let two = kind == 0;
    let elsewhere = shapes.kind == Wrong::Device && (two || shapes.wrong != 1);
    let nothing = y.place.shape.contains(&0);
    let surely = elsewhere || stream.device() != device || kernel.is_some() && !nothing && kind < 2;
    let (a_view, b_view, rows) = (a.view()?, b.view()?, a.place.shape.first().copied().unwrap_or(0));
    let run = |y: &mut TensorViewMut<'_, f16>| match kind {
        0 => {
            let add = Elementwise::new(Binary::Add);
            kernel.into_iter().fold(add, |add, name| add.kernel(name)).run(&stream, [&a_view, &b_view], y)
        }
        1 => kernel.into_iter().fold(Cast::new(), Cast::kernel).run(&stream, &a_view, y),
        2 => Transpose::new(dims).run(&stream, &a_view, y),
        3 => Rope::new(Pairs::Halves).columns(columns).run(&stream, &a_view, y),
        _ => {
            let indices = Tensor::<i64>::filled(device, rows as i64 - 1, &[3])?;
            Embedding::new().run(&stream, &a_view, &indices.view(), y)
        }
    };
    if overlapping {
        return overlapped(&a, &shape, call, run);
    }
    let result = run(&mut y.view_mut()?);
    check(result, surely, &y, call)
}

fn attention(random: &mut Random, device: &Device, call: &mut Call) -> Outcome {
    let (batch, heads, columns) = (random.within(1..=2), random.within(1..=3), random.pick(&[8, 64, 513, 0]));
    let (queries, keys) = (random.size(20), random.size(20));
    let scale = random.one_in(2).then(|| factor(random));
    let cap = random.one_in(3).then(|| factor(random));
    let window =
        random.one_in(3).then(|| [random.pick(&[0, 1, usize::MAX]), random.pick(&[0, 1, usize::MAX])]);
    let splits = random.one_in(3).then(|| random.pick(&[0, 1, 2, 1024, 1025, usize::MAX]));
    let (with_lengths, with_table, with_offsets) = (random.one_in(3), random.one_in(4), random.one_in(6));
    let (longest, overlapping) = (random.pick(&[0, 1, 20, usize::MAX]), random.one_in(8));
    call.set(format!(
        "Attention scale {scale:?}, cap {cap:?}, window {window:?}, splits {splits:?}, lengths {with_lengths}, table \
         {with_table}, offsets {with_offsets} of {longest} at most:"
    ));
    let mut shapes = Shapes::new(random, 8);
    let q = shapes.next::<f16>(device, &[batch, heads, queries, columns], call)?;
    let k = shapes.next::<f16>(device, &[batch, heads, keys, columns], call)?;
    let v = shapes.next::<f16>(device, &[batch, heads, keys, columns], call)?;
    let lengths = shapes.next::<i32>(device, &[batch], call)?;
    let table = shapes.next::<i32>(device, &[batch, 1], call)?;
    let offsets = shapes.next::<i32>(device, &[batch + 1], call)?;
    let mut lse = output::<f32>(&mut shapes, device, &[batch, heads, queries], call)?;
    let mut o = output::<f16>(&mut shapes, device, &[batch, heads, queries, columns], call)?;
    let (stream, kernel) = (shapes.stream(device)?, shapes.kernel());
    let used = match shapes.wrong {
        3 => with_lengths,
        4 => with_table,
        5 => with_offsets,
        _ => true,
    };
    let wrong_factor = |x: &f32| !(x.is_finite() && *x > 0.0);
    let empty = batch * heads * queries * columns == 0;
    let surely = shapes.kind == Wrong::Device && used
        || scale.as_ref().is_some_and(wrong_factor)
        || cap.as_ref().is_some_and(wrong_factor)
        || splits.is_some_and(|splits| !(1..=1024).contains(&splits))
        || stream.device() != device
        || kernel.is_some() && !empty
        || [0, 513].contains(&columns) && shapes.kind == Wrong::Nothing;
    let (lengths, table, offsets) = (lengths.view()?, table.view()?, offsets.view()?);
    if overlapping {
        let input = if longest == 0 { &k } else { &q };
        let (q, k, v) = (q.view()?, k.view()?, v.view()?);
        let shape = [batch, heads, queries, columns];
        return overlapped(input, &shape, call, |o| Attention::new().run(&stream, &q, &k, &v, o));
    }
    let result = {
        let mut rows = lse.view_mut()?;
        let attention = Attention::new().lse(&mut rows);
        let attention = scale.into_iter().fold(attention, Attention::scale);
        let attention = cap.into_iter().fold(attention, Attention::softcap);
        let attention = window.into_iter().fold(attention, |a, [left, right]| a.window(left, right));
        let attention = splits.into_iter().fold(attention, Attention::splits);
        let attention = if with_lengths { attention.lengths(&lengths) } else { attention };
        let attention = if with_table { attention.block_table(&table) } else { attention };
        let attention = if with_offsets { attention.packed(&offsets, &offsets, longest) } else { attention };
        let mut attention = kernel.into_iter().fold(attention, Attention::kernel);
        attention.run(&stream, &q.view()?, &k.view()?, &v.view()?, &mut o.view_mut()?)
    };
    let refused = result.is_err();
    check(result, surely, &o, call)?;
    match refused {
        true => lse.untouched()?,
        false => drop(lse.read()?),
    }
    Ok(())
}

/// Small weights of any scheme, packed for activations of 16 bits or of 8.
fn weights(random: &mut Random, device: &Device, call: &mut Call, order: Order) -> Result<DeviceWeights> {
    let scheme = Scheme {
        format: random.pick(&[Format::U4, Format::I4, Format::I8, Format::U2]),
        group: random.pick(&[Group::K128, Group::Row, Group::K32]),
        zeros: random.pick(&[Zeros::None, Zeros::Packed, Zeros::Rescaled]),
        scales: random.pick(&[HalfType::F16, HalfType::F16, HalfType::BF16]),
    };
    let shape = [random.within(1..=20), random.pick(&[16, 32, 17])];
    call.add(format!(" {scheme:?} {shape:?} {order:?}"));
    let values = vec![0.5f32; shape[0] * shape[1]];
    let order = if random.one_in(6) { random.pick(&[Order::B16, Order::B8]) } else { order };
    DeviceWeights::upload(device, &QuantizedWeights::quantize("w", &values, shape, scheme)?.pack(order)?)
}

fn dequant(random: &mut Random, device: &Device, call: &mut Call) -> Outcome {
    call.set("DequantGemm".to_owned());
    let w = weights(random, device, call, Order::B16)?;
    let ([n, k], m, alpha) = (w.shape(), random.size(20), factor(random));
    let little = random.one_in(3);
    let mut shapes = Shapes::new(random, 3);
    let a = shapes.next::<f16>(device, &[m, k], call)?;
    let bias = shapes.next::<f16>(device, &[n], call)?;
    let mut c = output::<f16>(&mut shapes, device, &[m, n], call)?;
    let (stream, kernel) = (shapes.stream(device)?, shapes.kernel());
    let wrong = shapes.kind == Wrong::Device || w.scheme().scales == HalfType::BF16 || w.order() == Order::B8;
    let surely = wrong || stream.device() != device || kernel.is_some() && m > 0;
    let mut memory = Placed::new(device, Place::packed(&[1]), &[0.0f32])?;
    let mut workspace = memory.view_mut()?;
    let bias = bias.view()?;
    let gemm = DequantGemm::<f16>::new().alpha(alpha).bias(&bias);
    let gemm = if little { gemm.workspace(&mut workspace) } else { gemm };
    let mut gemm = kernel.into_iter().fold(gemm, DequantGemm::kernel);
    let result = gemm.run(&stream, &a.view()?, &w, &mut c.view_mut()?);
    drop(gemm);
    memory.read()?;
    check(result, surely, &c, call)
}

fn int8(random: &mut Random, device: &Device, call: &mut Call) -> Outcome {
    call.set("DequantGemmInt8".to_owned());
    let w = weights(random, device, call, Order::B8)?;
    let ([n, k], m) = (w.shape(), random.size(20));
    let mut shapes = Shapes::new(random, 4);
    let a = shapes.next::<i8>(device, &[m, k], call)?;
    let bias = shapes.next::<f16>(device, &[n], call)?;
    let tokens = shapes.next::<f32>(device, &[m], call)?;
    let mut c = output::<f16>(&mut shapes, device, &[m, n], call)?;
    let (stream, kernel) = (shapes.stream(device)?, shapes.kernel());
    let wrong =
        shapes.kind == Wrong::Device || w.scheme().scales == HalfType::BF16 || w.order() == Order::B16;
    let surely = wrong || stream.device() != device || kernel.is_some() && m > 0 || k == 17;
    let (bias, tokens) = (bias.view()?, tokens.view()?);
    let gemm = DequantGemmInt8::<f16>::new().bias(&bias).tokens(&tokens);
    let mut gemm = kernel.into_iter().fold(gemm, DequantGemmInt8::kernel);
    let result = gemm.run(&stream, &a.view()?, &w, &mut c.view_mut()?);
    check(result, surely, &c, call)
}
