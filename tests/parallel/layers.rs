use tilewright::ops::{Activation, Gemm, HalfElement};
use tilewright::parallel::{Chunks, ColumnParallel, Communicator, RowParallel};
use tilewright::{Device, Result, Stream, Tensor, TensorView, bf16, f16};
use tilewright_support::Real;
use tilewright_support::random::normal;
use tilewright_support::reference::relative_error;
use tilewright_support::suite::Outcome;

use crate::ranks::{groups, on_ranks};

/// Rows, hidden size, columns between the two layers, chunks.
type Shape = [usize; 4];

/// The matrices of y = relu(x up + bias) down + shift, the same on all ranks.
struct Weights<T> {
    x: Vec<T>,
    up: Vec<T>,
    bias: Vec<T>,
    down: Vec<T>,
    shift: Vec<T>,
}

impl<T: HalfElement + Real> Weights<T> {
    fn new([rows, hidden, inner, _]: Shape) -> Self {
        let draw = |seed, len, scale: f32| -> Vec<T> {
            T::round(&normal::<f32>(seed, len).into_iter().map(|x| x * scale).collect::<Vec<_>>())
        };
        Weights {
            x: draw(1, rows * hidden, 1.0),
            up: draw(2, hidden * inner, (hidden as f32).powf(-0.5)),
            bias: draw(3, inner, 1.0),
            down: draw(4, inner * hidden, (inner as f32).powf(-0.5)),
            shift: draw(5, hidden, 1.0),
        }
    }

    /// On one device.
    fn whole(&self, device: &Device, [rows, hidden, inner, _]: Shape) -> Result<Vec<T>> {
        let tensor = |data: &[T], shape: &[usize]| Tensor::from_slice(device, data, shape);
        let (x, up) = (tensor(&self.x, &[rows, hidden])?, tensor(&self.up, &[hidden, inner])?);
        let (bias, down) = (tensor(&self.bias, &[inner])?, tensor(&self.down, &[inner, hidden])?);
        let shift = tensor(&self.shift, &[hidden])?;
        let mut between = Tensor::<T>::zeros(device, &[rows, inner])?;
        let mut y = Tensor::<T>::zeros(device, &[rows, hidden])?;
        let stream = device.default_stream();
        let first = Gemm::new().activation(Activation::Relu);
        first.bias(&bias.view()).run(&stream, &x.view(), &up.view(), &mut between.view_mut())?;
        let second = Gemm::new();
        second.bias(&shift.view()).run(&stream, &between.view(), &down.view(), &mut y.view_mut())?;
        y.to_vec()
    }
}

/// A rank's tensors.
struct Divided<T> {
    x: Tensor<T>,
    part: Tensor<T>,
    gathered: Tensor<T>,
    up: Tensor<T>,
    bias: Tensor<T>,
    down: Tensor<T>,
    shift: Tensor<T>,
    between: Tensor<T>,
    sums: Tensor<T>,
    own: Tensor<T>,
}

impl<T: HalfElement + Real> Divided<T> {
    fn new(rank: &Communicator, weights: &Weights<T>, chunks: &Chunks, shape: Shape) -> Result<Self> {
        let [rows, hidden, inner, _] = shape;
        let (device, at, ranks) = (rank.device(), rank.rank(), rank.ranks());
        let each = inner / ranks;
        let columns = |of: &[T], width: usize| -> Vec<T> {
            of.chunks(width).flat_map(|row| &row[at * each..(at + 1) * each]).copied().collect()
        };
        let own: Vec<T> = chunks
            .of_rank(at, ranks)?
            .into_iter()
            .flat_map(|rows| &weights.x[rows.start * hidden..rows.end * hidden])
            .copied()
            .collect();
        let down = &weights.down[at * each * hidden..(at + 1) * each * hidden];
        Ok(Divided {
            x: Tensor::from_slice(device, &weights.x, &[rows, hidden])?,
            part: Tensor::from_slice(device, &own, &[rows / ranks, hidden])?,
            gathered: Tensor::filled(device, T::POISON, &[rows, hidden])?,
            up: Tensor::from_slice(device, &columns(&weights.up, inner), &[hidden, each])?,
            bias: Tensor::from_slice(device, &columns(&weights.bias, inner), &[each])?,
            down: Tensor::from_slice(device, down, &[each, hidden])?,
            shift: Tensor::from_slice(device, &weights.shift, &[hidden])?,
            between: Tensor::filled(device, T::POISON, &[rows, each])?,
            sums: Tensor::filled(device, T::POISON, &[rows, hidden])?,
            own: Tensor::filled(device, T::POISON, &[rows / ranks, hidden])?,
        })
    }

    /// All of X on all ranks, all of Y on all ranks.
    fn reduced(&mut self, rank: &mut Communicator, stream: &Stream, chunks: &Chunks) -> Result<()> {
        let (bias, shift) = (self.bias.view(), self.shift.view());
        let first = Gemm::new().activation(Activation::Relu).bias(&bias);
        first.run(stream, &self.x.view(), &self.up.view(), &mut self.between.view_mut())?;
        let second = RowParallel::new(Gemm::new().bias(&shift));
        let (between, down) = (self.between.view(), self.down.view());
        second.run(rank, stream, chunks, &between, &down, &mut self.sums.view_mut())
    }

    /// A part of the rows of X and of Y on each rank.
    fn scattered(&mut self, rank: &mut Communicator, stream: &Stream, chunks: &Chunks) -> Result<()> {
        let (bias, shift) = (self.bias.view(), self.shift.view());
        let first = ColumnParallel::new(Gemm::new().activation(Activation::Relu).bias(&bias));
        let (part, up) = (self.part.view(), self.up.view());
        let mut gathered = self.gathered.view_mut();
        first.run_gathered(rank, stream, chunks, &part, &mut gathered, &up, &mut self.between.view_mut())?;
        let second = RowParallel::new(Gemm::new().bias(&shift));
        let (between, down): (TensorView<'_, T>, _) = (self.between.view(), self.down.view());
        let (mut sums, mut own) = (self.sums.view_mut(), self.own.view_mut());
        second.run_scattered(rank, stream, chunks, &between, &down, &mut sums, &mut own)
    }
}

/// What a rank computes is what one device does.
fn matches_one<T: HalfElement + Real>(
    rank: &mut Communicator,
    weights: &Weights<T>,
    whole: &[f64],
    shape: Shape,
) -> Result<()> {
    let [rows, hidden, _, count] = shape;
    // Each sum is rounded on every rank and once more, as what lies between the layers is.
    let most = 4.0 * T::ROUNDING;
    let (ranks, stream) = (rank.ranks(), Stream::new(rank.device())?);
    let chunks = Chunks::new(rows, count, ranks)?;
    let mut divided = Divided::new(rank, weights, &chunks, shape)?;
    divided.reduced(rank, &stream, &chunks)?;
    let error = relative_error(&divided.sums.to_vec_on(&stream)?, whole);
    assert!(error < most, "all rows: {error} with {ranks} ranks, {shape:?}");
    divided.scattered(rank, &stream, &chunks)?;
    let own = chunks.of_rank(rank.rank(), ranks)?.into_iter();
    let expected: Vec<f64> =
        own.flat_map(|rows| &whole[rows.start * hidden..rows.end * hidden]).copied().collect();
    let error = relative_error(&divided.own.to_vec_on(&stream)?, &expected);
    assert!(error < most, "own rows: {error} with {ranks} ranks, {shape:?}");
    Ok(())
}

pub fn as_on_one(device: &Device) -> Outcome {
    fn of<T: HalfElement + Real>(device: &Device, shape: Shape) -> Result<(Weights<T>, Vec<f64>, Shape)> {
        let weights = Weights::<T>::new(shape);
        let whole = T::widen(&weights.whole(device, shape)?).into_iter().map(f64::from).collect();
        Ok((weights, whole, shape))
    }
    // Rows and inner columns that two, three and four ranks divide; chunks of one row for each too.
    let shapes = [[24, 40, 96, 1], [384 * 2 + 12, 64, 96, 3], [12, 48, 24, 2]];
    for group in groups(device)? {
        let wide = shapes.map(|shape| of::<bf16>(&group[0], shape));
        let exact = shapes.map(|shape| of::<f16>(&group[0], shape));
        let (wide, exact) =
            (wide.into_iter().collect::<Result<Vec<_>>>()?, exact.into_iter().collect::<Result<Vec<_>>>()?);
        // A group takes NCCL seconds to make.
        on_ranks(&group, |rank| {
            let mut each = wide.iter();
            each.try_for_each(|(weights, whole, shape)| matches_one(rank, weights, whole, *shape))?;
            let mut each = exact.iter();
            each.try_for_each(|(weights, whole, shape)| matches_one(rank, weights, whole, *shape))
        })?;
    }
    Ok(())
}

pub fn the_same_bits(device: &Device) -> Outcome {
    for group in groups(device)? {
        let shape = [384 * 2, 64, 96, 2];
        let weights = Weights::<f16>::new(shape);
        let chunks = Chunks::new(shape[0], shape[3], group.len())?;
        let of_ranks = on_ranks(&group, |rank| {
            let stream = Stream::new(rank.device())?;
            let mut divided = Divided::new(rank, &weights, &chunks, shape)?;
            let bits = |of: &Tensor<f16>| -> Result<Vec<u16>> {
                Ok(of.to_vec_on(&stream)?.into_iter().map(f16::to_bits).collect())
            };
            divided.reduced(rank, &stream, &chunks)?;
            let first = bits(&divided.sums)?;
            for _ in 0..3 {
                divided.sums.fill(&stream, f16::NAN)?;
                divided.reduced(rank, &stream, &chunks)?;
                assert!(bits(&divided.sums)? == first, "other bits in another run");
            }
            if rank.device().is_emulator() {
                return Ok(first);
            }
            let graph = stream.capture(|stream| divided.reduced(rank, stream, &chunks))?;
            for _ in 0..2 {
                divided.sums.fill(&stream, f16::NAN)?;
                // SAFETY: the tensors and the communicator live until the stream is waited for, and nothing else uses them.
                unsafe { graph.launch(&stream)? };
                assert!(bits(&divided.sums)? == first, "other bits in a graph");
            }
            Ok(first)
        })?;
        assert!(of_ranks.windows(2).all(|pair| pair[0] == pair[1]), "other bits on another rank");
    }
    Ok(())
}

/// A GEMM on few SMs gives the bits of one on all.
pub fn some_sms(device: &Device) -> Outcome {
    let (x, w) = (normal::<f16>(1, 300 * 64), normal::<f16>(2, 64 * 520));
    let (x, w) = (Tensor::from_slice(device, &x, &[300, 64])?, Tensor::from_slice(device, &w, &[64, 520])?);
    let stream = device.default_stream();
    for candidate in Gemm::<f16>::new().candidates(
        &x.view(),
        &w.view(),
        &Tensor::zeros(device, &[300, 520])?.view_mut(),
    )? {
        let able = candidate.entry().filter(|_| candidate.cycles().is_some());
        let Some(kernel) = able else { continue };
        let run = |gemm: Gemm<'_, f16>| -> Result<Vec<f16>> {
            let mut y = Tensor::filled(device, f16::NAN, &[300, 520])?;
            gemm.kernel(kernel.name).run(&stream, &x.view(), &w.view(), &mut y.view_mut())?;
            y.to_vec()
        };
        let all = run(Gemm::new())?;
        for sms in [1, 5] {
            assert!(run(Gemm::new().sms(sms))? == all, "{} on {sms} SMs", kernel.name);
        }
    }
    Ok(())
}
