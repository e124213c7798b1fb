//! What is run.

use std::cell::RefCell;

use tilewright::ops::{Attention, Gemm, Mla};
use tilewright::{Arch, Device, Stream, Tensor, f16};
use tilewright_support::Result;
use tilewright_support::random::normal;

/// An operator on tensors, by a kernel for an architecture.
pub struct Case<'a> {
    name: String,
    kernel: &'static str,
    flops: f64,
    run: Box<dyn Fn() -> tilewright::Result<()> + 'a>,
}

impl<'a> Case<'a> {
    /// A square product of f16.
    pub fn gemm(device: &'a Device, arch: Arch, size: usize) -> Result<Self> {
        let [a, b, c] = [1, 2, 3].map(|seed| random(device, seed, &[size, size]));
        let (a, b, c, stream) = (a?, b?, RefCell::new(c?), Stream::new(device)?);
        let all = Gemm::new().candidates(&a.view(), &b.view(), &c.borrow_mut().view_mut())?;
        let kernel = best(arch, all.iter().map(|c| (c.name(), c.cycles().is_some())))?;
        let run = move || {
            let mut c = c.borrow_mut();
            Gemm::new().kernel(kernel).run(&stream, &a.view(), &b.view(), &mut c.view_mut())?;
            stream.synchronize()
        };
        let name = format!("gemm f16 {size}x{size}x{size} {}", arch.target());
        Ok(Self { name, kernel, flops: 2.0 * (size as f64).powi(3), run: Box::new(run) })
    }

    /// A causal attention of f16, of one sequence and a head dimension of 128.
    pub fn attention(device: &'a Device, arch: Arch, heads: usize, length: usize) -> Result<Self> {
        const COLUMNS: usize = 128;
        let shape = [1, heads, length, COLUMNS];
        let [q, k, v, o] = [1, 2, 3, 4].map(|seed| random(device, seed, &shape));
        let (q, k, v, o, stream) = (q?, k?, v?, RefCell::new(o?), Stream::new(device)?);
        let attention = || Attention::new().causal();
        let all = attention().candidates(&q.view(), &k.view(), &v.view(), &o.borrow_mut().view_mut())?;
        let kernel = best(arch, all.iter().map(|c| (c.name(), c.cycles().is_some())))?;
        let run = move || {
            let mut o = o.borrow_mut();
            let (q, k, v) = (q.view(), k.view(), v.view());
            attention().kernel(kernel).run(&stream, &q, &k, &v, &mut o.view_mut())?;
            stream.synchronize()
        };
        let name = format!("attention f16 b1 s{length} h{heads} d{COLUMNS} causal {}", arch.target());
        // The mask leaves half of them.
        let flops = 2.0 * (heads * length * length * COLUMNS) as f64;
        Ok(Self { name, kernel, flops, run: Box::new(run) })
    }

    /// A decoding step of f16 over a latent cache without pages, of one sequence.
    pub fn mla(device: &'a Device, arch: Arch, heads: usize, keys: usize) -> Result<Self> {
        const COLUMNS: [usize; 2] = [576, 512];
        let ([d, dv], stream) = (COLUMNS, Stream::new(device)?);
        let q = random(device, 1, &[1, 1, heads, d])?;
        let cache = random(device, 2, &[1, keys, 1, d])?;
        let o = RefCell::new(random(device, 3, &[1, 1, heads, dv])?);
        let all = Mla::new().candidates(&q.view(), &cache.view(), &o.borrow_mut().view_mut())?;
        let kernel = best(arch, all.iter().map(|c| (c.name(), c.rejection().is_none())))?;
        let mla = RefCell::new(Mla::new().kernel(kernel));
        let run = move || {
            let mut o = o.borrow_mut();
            mla.borrow_mut().run(&stream, &q.view(), &cache.view(), &mut o.view_mut())?;
            stream.synchronize()
        };
        let name = format!("mla f16 b1 h{heads} kv{keys} {}", arch.target());
        let flops = 2.0 * (heads * keys * (d + dv)) as f64;
        Ok(Self { name, kernel, flops, run: Box::new(run) })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// The kernel's name.
    pub fn kernel(&self) -> &'static str {
        self.kernel
    }

    /// Multiplications and additions.
    pub fn flops(&self) -> f64 {
        self.flops
    }

    /// Computes it.
    pub fn run(&self) -> tilewright::Result<()> {
        (self.run)()
    }
}

fn random(device: &Device, seed: u64, shape: &[usize]) -> tilewright::Result<Tensor<f16>> {
    Tensor::from_slice(device, &normal::<f16>(seed, shape.iter().product()), shape)
}

/// The best of an architecture's kernels, by the operator's estimate; each is its name, and whether it is possible.
fn best(arch: Arch, kernels: impl Iterator<Item = (&'static str, bool)>) -> Result<&'static str> {
    let of_arch = if arch == Arch::Sm90a { "_sm_90_" } else { "_sm_80_" };
    let mut possible = kernels.filter(|(name, possible)| *possible && name.contains(of_arch));
    possible.next().map(|(name, _)| name).ok_or_else(|| format!("no kernel for {}", arch.target()).into())
}
