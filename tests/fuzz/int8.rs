//! Products of int8 activations and narrow integers, scaled and exact.

use tilewright::ops::{Activation, DequantGemmInt8, DeviceWeights, HalfElement, Int8Output};
use tilewright::quant::{
    Format, Group, HalfType, Halves, Order, QuantizedWeights, Scheme, ZeroPoints, Zeros,
};
use tilewright::{Device, Stream, bf16, f16};
use tilewright_support::Real;
use tilewright_support::activation::{self, STEEPEST};
use tilewright_support::random::normal;

use crate::dequant::{lacks_kernel, scheme};
use crate::place::{Number, Place, Placed};
use crate::random::Random;
use crate::{Call, Outcome};

pub fn case(random: &mut Random, device: &Device, call: &mut Call) -> Outcome {
    match random.below(4) {
        0 => scaled::<f16>(random, device, call),
        1 => scaled::<bf16>(random, device, call),
        2 => sums(random, device, call, HalfType::F16),
        _ => sums(random, device, call, HalfType::BF16),
    }
}

/// What all products of int8 have.
struct Operands {
    size: [usize; 3],
    a: Placed<i8>,
    quantized: QuantizedWeights,
    w: DeviceWeights,
    own_workspace: bool,
    /// Which kernel, if one is asked for by name.
    forced: Option<usize>,
}

impl Operands {
    fn new(
        random: &mut Random,
        device: &Device,
        call: &mut Call,
        scales: HalfType,
    ) -> tilewright::Result<Self> {
        let [m, n, k] = [random.size(140), random.size(150).max(1), 16 * random.within(1..=20)];
        let scheme = scheme(random, scales);
        // Of others there is no product, and not of many.
        let format = if scheme.format.is_integer() { scheme.format } else { Format::I8 };
        let (group, zeros) = match random.below(4) {
            0 => (scheme.group, scheme.zeros),
            _ => (random.pick(&[Group::K128, Group::Row]), random.pick(&[Zeros::None, Zeros::Packed])),
        };
        let scheme = Scheme { format, group, zeros, ..scheme };
        let mut a = Place::lines(random, &[m, k], 0);
        // In lines of 16 bytes.
        a.strides[0] = a.strides[0].next_multiple_of(16);
        a.offset = a.offset.next_multiple_of(16);
        let (own_workspace, seed) = (random.one_in(2), random.next());
        let forced = random.one_in(2).then(|| random.below(1 << 20));
        call.set(format!("{scheme:?}, [n, k] [{n}, {k}], A {a:?}, workspace of its own {own_workspace}"));
        let quantized = weights([n, k], scheme, seed)?;
        let packed = quantized.pack(Order::B8)?;
        let elements: Vec<i8> = (0..m * k).map(|_| random.next() as i8).collect();
        let (a, w) = (Placed::new(device, a, &elements)?, DeviceWeights::upload(device, &packed)?);
        Ok(Operands { size: [m, n, k], a, quantized, w, own_workspace, forced })
    }

    /// Of every element of C: the sum of the products of codes, and those of groups times their scales with their magnitudes.
    fn expected(&self) -> tilewright::Result<Vec<(i64, f64, f64)>> {
        let ([m, n, k], a, w) = (self.size, self.a.values()?, &self.quantized);
        let (scheme, groups) = (w.scheme(), w.groups());
        let len = scheme.group.len(k);
        let zero = |i: usize| match w.zeros() {
            ZeroPoints::Packed(zeros) => i64::from(zeros[i]),
            ZeroPoints::Original(zeros) => zeros.get(i) as i64,
            _ => 0,
        };
        let integer = |col: usize, x: usize| {
            scheme.format.value(w.codes()[col * k + x]) as i64 - zero(col * groups + x / len)
        };
        let of = |row: usize, col: usize| {
            let parts = (0..groups).map(|group| {
                let columns = group * len..k.min((group + 1) * len);
                let sum: i64 = columns.map(|x| i64::from(a[row * k + x]) * integer(col, x)).sum();
                (sum, sum as f64 * f64::from(w.scales().get(col * groups + group)))
            });
            parts.fold((0, 0.0, 0.0), |(all, sum, size), (part, x)| (all + part, sum + x, size + x.abs()))
        };
        Ok((0..m * n).map(|i| of(i / n, i % n)).collect())
    }
}

/// Weights whose zeros, if they have any, are integers mostly.
fn weights([n, k]: [usize; 2], scheme: Scheme, seed: u64) -> tilewright::Result<QuantizedWeights> {
    let mut random = Random::new(seed, 0);
    let Scheme { format, group, zeros, scales } = scheme;
    let codes = (0..n * k).map(|_| random.below(format.codes()) as u8).collect();
    let groups = n * group.count(k);
    let (lowest, highest) = format.range();
    let zero = |random: &mut Random| random.below((highest - lowest) as usize + 1) as i16 + lowest as i16;
    let integers: Vec<i16> = (0..groups).map(|_| zero(&mut random)).collect();
    let halves = |values: &[i16]| Halves::round(scales, values.iter().map(|&x| f64::from(x)));
    let zeros = match zeros {
        Zeros::None => ZeroPoints::None,
        Zeros::Original => ZeroPoints::Original(halves(&integers)),
        Zeros::Rescaled => ZeroPoints::Rescaled(halves(&integers)),
        Zeros::Packed => ZeroPoints::Packed(integers),
    };
    let scales = Halves::round(scales, (0..groups).map(|_| (random.below(64) + 32) as f64 / 65536.0));
    QuantizedWeights::new("w", format, group, [n, k], codes, scales, zeros)
}

/// Runs an operator, on the kernel that is asked for; gives C, unless there is no kernel for the weights.
macro_rules! run {
    ($gemm:expr, $operands:expr, $c:expr, $device:expr, $call:expr) => {{
        let (gemm, operands, stream) = ($gemm, $operands, Stream::new($device)?);
        let (a, w) = (operands.a.view()?, &operands.w);
        let mut c = $c.view_mut()?;
        let names: Vec<_> = match gemm.candidates(&a, w, &c) {
            Err(error) if lacks_kernel(&error) => return $call.refused(error),
            all => all?.iter().filter(|all| all.rejection().is_none()).map(|all| all.name()).collect(),
        };
        if names.is_empty() {
            return match gemm.plan(&a, w, &c) {
                Err(error) if lacks_kernel(&error) => $call.refused(error),
                plan => Err(format!("no candidate, and yet {plan:?}").into()),
            };
        }
        let gemm = match operands.forced {
            None => gemm,
            Some(at) => {
                $call.add(format!(", kernel {}", names[at % names.len()]));
                gemm.kernel(names[at % names.len()])
            }
        };
        let memory = Place::packed(&[gemm.workspace_len(&a, w, &c)?]);
        let mut memory = Placed::new($device, memory.clone(), &vec![0.0f32; memory.count()])?;
        {
            let mut workspace = memory.view_mut()?;
            let mut gemm = if operands.own_workspace { gemm } else { gemm.workspace(&mut workspace) };
            gemm.run(&stream, &a, w, &mut c)?;
        }
        stream.synchronize()?;
        memory.read()?;
        $c.read()?
    }};
}

fn sums(random: &mut Random, device: &Device, call: &mut Call, scales: HalfType) -> Outcome {
    let operands = Operands::new(random, device, call, scales)?;
    let [m, n, _] = operands.size;
    let place = Place::any(random, &[m, n]);
    call.add(format!(", sums, C {place:?}"));
    let mut c = Placed::<i32>::poisoned(device, place)?;
    let out = run!(DequantGemmInt8::<i32>::new(), &operands, c, device, call);
    for (at, (&got, (want, ..))) in out.iter().zip(operands.expected()?).enumerate() {
        if got != want as i32 {
            return Err(format!("C[{}, {}] is {got}, must be {want}", at / n, at % n).into());
        }
    }
    Ok(())
}

fn scaled<T: Real + Number + Int8Output + HalfElement>(
    random: &mut Random,
    device: &Device,
    call: &mut Call,
) -> Outcome {
    let operands = Operands::new(random, device, call, T::HALF)?;
    let [m, n, _] = operands.size;
    let (place, bias_place) = (Place::any(random, &[m, n]), Place::any(random, &[n]));
    let tokens_place = Place::any(random, &[m]);
    let tokens_place = if random.one_in(4) { tokens_place.repeating(0) } else { tokens_place };
    let (with_tokens, with_bias) = (random.one_in(2), random.one_in(2));
    let activation = random.pick(&Activation::ALL);
    call.add(format!(
        ", {}, C {place:?}, tokens {with_tokens} {tokens_place:?}, bias {with_bias} {bias_place:?}, activation {activation}",
        T::DTYPE
    ));
    let elements: Vec<f32> = (0..m).map(|_| (random.below(32) + 1) as f32 / 4096.0).collect();
    let tokens = Placed::new(device, tokens_place, &elements)?;
    let bias = Placed::new(device, bias_place, &normal::<T>(random.next(), n))?;
    let mut c = Placed::<T>::poisoned(device, place)?;
    let (tokens_view, bias_view) = (tokens.view()?, bias.view()?);
    let gemm = DequantGemmInt8::<T>::new();
    let gemm = if with_tokens { gemm.tokens(&tokens_view) } else { gemm };
    let plain = if with_bias { gemm.bias(&bias_view) } else { gemm };
    let gemm = plain.activation(activation);
    let out = run!(gemm, &operands, c, device, call);
    let (tokens, bias) = (tokens.values()?, T::widen(&bias.values()?));
    for (at, (got, (_, sum, size))) in T::widen(&out).into_iter().zip(operands.expected()?).enumerate() {
        let (row, col) = (at / n, at % n);
        let token = if with_tokens { f64::from(tokens[row]) } else { 1.0 };
        let bias = if with_bias { f64::from(bias[col]) } else { 0.0 };
        let exact = activation::exact(activation, sum * token + bias);
        let before = 2e-6 * (size * token + bias.abs()) + 1e-6;
        let bound = STEEPEST * before + T::ROUNDING * exact.abs();
        let off = (f64::from(got) - exact).abs();
        if off.is_nan() || off > bound {
            return Err(format!("C[{row}, {col}] is {got}, must be {exact} within {bound:.2e}").into());
        }
    }
    Ok(())
}
