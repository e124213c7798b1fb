//! Keys and values of all layers in pages, and which pages a sequence has.

use candle_core::{DType, Device, Result, Tensor};

use crate::config::Config;

/// Rows of a page.
pub const PAGE: usize = 64;

/// The caches of all layers.
pub struct Cache {
    /// Keys and values of each layer, (pages, rows of a page, KV heads, head size).
    pub layers: Vec<[Tensor; 2]>,
    /// The pages of each sequence.
    tables: Vec<Vec<u32>>,
}

impl Cache {
    /// For so many sequences of up to `longest` tokens. Pages of sequences lie between each other, as they come to in a server, unless they are to be `plain`.
    pub fn new(
        config: &Config,
        sequences: usize,
        longest: usize,
        plain: bool,
        device: &Device,
    ) -> Result<Self> {
        let pages = longest.div_ceil(PAGE);
        let shape = (sequences * pages, PAGE, config.kv_heads, config.head_size);
        let layer = || -> Result<[Tensor; 2]> {
            Ok([Tensor::zeros(shape, DType::BF16, device)?, Tensor::zeros(shape, DType::BF16, device)?])
        };
        let page = |sequence: usize, page: usize| match plain {
            true => sequence * pages + page,
            false => page * sequences + sequence,
        };
        let table = |sequence| (0..pages).map(|number| page(sequence, number) as u32).collect();
        Ok(Cache {
            layers: (0..config.layers).map(|_| layer()).collect::<Result<_>>()?,
            tables: (0..sequences).map(table).collect(),
        })
    }

    /// The table of pages, (sequences, pages of a sequence).
    pub fn table(&self, device: &Device) -> Result<Tensor> {
        Tensor::new(self.tables.clone(), device)
    }

    /// Where a token of a sequence lies among all rows.
    pub fn slot(&self, sequence: usize, position: usize) -> u32 {
        self.tables[sequence][position / PAGE] * PAGE as u32 + (position % PAGE) as u32
    }
}
