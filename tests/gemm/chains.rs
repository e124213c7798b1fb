//! Launches that overlap (programmatic dependent launch): each reads what the preceding one writes, and overwrites
//! what that one reads.

use tilewright::ops::{Gemm, GemmViews};
use tilewright::{Device, Result, Stream, Tensor, f16};
use tilewright_support::random::normal;
use tilewright_support::suite::Outcome;

/// Products one after the other, X W, X W W', …, through two matrices in turns.
struct Chain {
    rows: usize,
    size: usize,
    start: Vec<f16>,
    weights: Vec<Tensor<f16>>,
    turns: [Tensor<f16>; 2],
    transposed: bool,
    /// One for all launches, whether they overlap or not.
    workspace: Tensor<f32>,
}

/// Elements of it.
const WORKSPACE: usize = 1 << 22;

/// Launches of a chain: an even number, so that the last result is in the first matrix. The emulator runs one after the other whatever
/// they say.
fn steps(device: &Device) -> usize {
    if device.is_emulator() { 6 } else { 32 }
}

impl Chain {
    fn new(device: &Device, rows: usize, size: usize, transposed: bool) -> Result<Self> {
        let weights = (0..5).map(|i| Tensor::from_slice(device, &normal(i, size * size), &[size, size]));
        let turn = || Tensor::uninit(device, &[rows, size]);
        Ok(Self {
            rows,
            size,
            start: normal(50, rows * size),
            weights: weights.collect::<Result<_>>()?,
            turns: [turn()?, turn()?],
            transposed,
            workspace: Tensor::uninit(device, &[WORKSPACE])?,
        })
    }

    /// The kernels that can compute a link.
    fn kernels(&self) -> Result<Vec<&'static str>> {
        let mut out = Tensor::<f16>::uninit(self.turns[0].device(), &[self.rows, self.size])?;
        let weight = self.weights[0].view();
        let weight = if self.transposed { weight.transpose(0, 1)? } else { weight };
        let all = Gemm::<f16>::new().candidates(&self.turns[0].view(), &weight, &out.view_mut())?;
        Ok(all.iter().filter(|kernel| kernel.rejection().is_none()).map(|kernel| kernel.name()).collect())
    }

    /// Puts the first matrix in its place, and NaN where the second will be.
    fn reset(&mut self) -> Result<()> {
        self.turns[0].write(&self.start)?;
        self.turns[1].write(&vec![f16::NAN; self.start.len()])
    }

    /// Queues the products, by these kernels in turns.
    fn queue(&mut self, stream: &Stream, kernels: &[&str], overlap: bool) -> Result<()> {
        let scale = (self.size as f32).sqrt().recip();
        for step in 0..steps(self.turns[0].device()) {
            let Chain { weights, turns: [x, y], transposed, workspace, .. } = self;
            let weight = weights[step % weights.len()].view();
            let weight = if *transposed { weight.transpose(0, 1)? } else { weight };
            let (from, to) = if step % 2 == 0 { (x, y) } else { (y, x) };
            let gemm = Gemm::new().alpha(scale).kernel(kernels[step % kernels.len()]).overlap(overlap);
            let plan = gemm.plan(&from.view(), &weight, &to.view_mut())?;
            let (from, mut to, none) = (from.view(), to.view_mut(), GemmViews::default());
            plan.run_in(stream, &from, &weight, &mut to, &none, &mut workspace.view_mut())?;
            if !overlap {
                stream.synchronize()?;
            }
        }
        Ok(())
    }

    fn result(&self) -> Result<Vec<f16>> {
        self.turns[0].to_vec()
    }
}

/// The same bits as from launches that wait for each other, for every kernel alone and all of them mixed.
pub fn of_products(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    // The emulator runs one launch after the other, every time the same.
    let (shapes, attempts): (&[_], _) = match device.is_emulator() {
        true => (&[(128, 128, false), (16, 256, true), (72, 136, true), (1, 64, true)], 1),
        false => {
            (&[(256, 256, false), (16, 1024, true), (128, 1024, false), (1000, 520, true), (1, 64, true)], 3)
        }
    };
    for &(rows, size, transposed) in shapes {
        let mut chain = Chain::new(device, rows, size, transposed)?;
        let all = chain.kernels()?;
        for kernels in all.chunks(1).chain([&all[..]]) {
            chain.reset()?;
            chain.queue(&stream, kernels, false)?;
            let expected = chain.result()?;
            let size = expected.iter().map(|x| x.to_f32().abs()).sum::<f32>() / expected.len() as f32;
            assert!((1e-2..1e3).contains(&size), "elements are of size {size} in the end");
            for attempt in 0..attempts {
                chain.reset()?;
                chain.queue(&stream, kernels, true)?;
                assert!(
                    chain.result()? == expected,
                    "{rows} x {}, {kernels:?}, attempt {attempt}",
                    chain.size
                );
            }
        }
    }
    Ok(())
}

/// The same from a graph, which keeps the overlap.
pub fn in_graphs(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let (rows, size) = if device.is_emulator() { (16, 256) } else { (128, 1024) };
    let mut chain = Chain::new(device, rows, size, true)?;
    let kernels = chain.kernels()?;
    chain.reset()?;
    chain.queue(&stream, &kernels, false)?;
    let expected = chain.result()?;
    let graph = stream.capture(|stream| chain.queue(stream, &kernels, true))?;
    assert_eq!(graph.nodes(), steps(device));
    for replay in 0..5 {
        chain.reset()?;
        // SAFETY: the chain's tensors are alive.
        unsafe { graph.launch(&stream)? };
        assert!(chain.result()? == expected, "replay {replay}");
    }
    Ok(())
}

/// Every launch adds to what the preceding one wrote.
pub fn of_sums(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let (size, attempts) = if device.is_emulator() { (128, 1) } else { (256, 3) };
    let a = Tensor::<f16>::from_slice(device, &normal(1, size * size), &[size, size])?;
    let b = Tensor::<f16>::from_slice(device, &normal(2, size * size), &[size, size])?;
    let mut c = Tensor::<f32>::zeros(device, &[size, size])?;
    let candidates = Gemm::<f32>::new().candidates(&a.view(), &b.view(), &c.view_mut())?;
    for kernel in candidates.iter().filter(|kernel| kernel.rejection().is_none()) {
        let mut sums = |overlap| -> Result<Vec<f32>> {
            c.fill(&stream, 0.0)?;
            for step in 0..50 {
                let gemm =
                    Gemm::new().alpha(1.0 + step as f32).beta(0.75).kernel(kernel.name()).overlap(overlap);
                gemm.run(&stream, &a.view(), &b.view(), &mut c.view_mut())?;
                if !overlap {
                    stream.synchronize()?;
                }
            }
            c.to_vec_on(&stream)
        };
        let expected = sums(false)?;
        for _ in 0..attempts {
            assert!(sums(true)? == expected, "{}", kernel.name());
        }
    }
    Ok(())
}
