//! The peers, in a process of PyTorch's.

use tilewright_support::Result;

use crate::case::Case;
use crate::python::Python;

/// What the peers are called: PyTorch's attention by cuDNN, the same by its flash-attention 2, and flash-attention 3.
pub const NAMES: [&str; 3] = ["cuDNN", "flash", "FA3"];

/// The one that computes heads of more than 256 columns: PyTorch's memory-efficient attention.
pub const WIDE: [&str; 1] = ["efficient"];

/// A running `sdpa.py`.
pub struct Peer(Python);

impl Peer {
    /// Starts it; an error where there is no Python, or none with PyTorch.
    pub fn start() -> Result<Self> {
        Python::start(include_str!("sdpa.py")).map(Peer)
    }

    /// What is compared with, and of which version.
    pub fn versions(&self) -> &str {
        self.0.versions()
    }

    /// Makes inputs of a case, so many sets of them; gives the names of those that can compute it.
    pub fn prepare(&self, case: &Case, sets: usize) -> Result<Vec<String>> {
        let Case { dtype, batch, heads, kv_heads, queries, keys, columns: [d, dv], causal, .. } = case;
        let causal = u8::from(*causal);
        let question =
            format!("case {dtype} {batch} {heads} {kv_heads} {queries} {keys} {d} {dv} {causal} {sets}");
        Ok(self.0.ask(&question)?.split_whitespace().map(str::to_owned).collect())
    }

    /// The same for packed sequences of these lengths, of bf16; heads, heads of keys, and columns.
    pub fn prepare_packed(
        &self,
        lengths: &[usize],
        [heads, kv_heads, d]: [usize; 3],
        causal: bool,
    ) -> Result<Vec<String>> {
        let lengths = lengths.iter().map(usize::to_string).collect::<Vec<_>>().join(" ");
        let question = format!("packed {heads} {kv_heads} {d} {} {lengths}", u8::from(causal));
        Ok(self.0.ask(&question)?.split_whitespace().map(str::to_owned).collect())
    }

    /// PyTorch's attention of bf16 with a mask that is added, of these shapes: of Q, K and V, and of the mask.
    pub fn prepare_biased(&self, shape: [usize; 4], mask: [usize; 4]) -> Result<Vec<String>> {
        let words = [shape, mask].as_flattened().iter().map(usize::to_string).collect::<Vec<_>>().join(" ");
        Ok(self.0.ask(&format!("biased {words}"))?.split_whitespace().map(str::to_owned).collect())
    }

    /// PyTorch's `flex_attention` of bf16 with a mask of random blocks and the diagonal's, of each of these densities, in hundredths; sequences, heads,
    /// heads of keys, length, columns, and what a block has of queries and of keys.
    pub fn prepare_sparse(
        &self,
        shape: [usize; 6],
        causal: bool,
        densities: &[usize],
    ) -> Result<Vec<String>> {
        let words = |of: &[usize]| of.iter().map(usize::to_string).collect::<Vec<_>>().join(" ");
        let question = format!("sparse {} {} {}", words(&shape), u8::from(causal), words(densities));
        Ok(self.0.ask(&question)?.split_whitespace().map(str::to_owned).collect())
    }

    /// Measures one of them once on the device; gives the milliseconds of a launch.
    pub fn turn(&self, name: &str) -> Result<f64> {
        Ok(self.0.ask(&format!("turn {name}"))?.parse()?)
    }

    /// The host's microseconds of a call from Python.
    pub fn host_us(&self, name: &str) -> Result<f64> {
        Ok(self.0.ask(&format!("host {name}"))?.parse()?)
    }
}
