//! Steps of one token for each sequence, on a GPU in a CUDA graph: recorded once, launched for every token.

use anyhow::Result;
use candle_core::{DType, Tensor};
use tilewright_candle::Buffers;

use crate::cache::Cache;
use crate::model::{Attended, Model, Tokens};
use crate::operators::Paged;

/// What a step reads and writes, always in the same memory.
pub struct Decode<'a> {
    model: &'a Model,
    cache: &'a Cache,
    tokens: Tokens,
    paged: Paged,
    /// Positions, rows of the caches and lengths, (3, sequences): one copy to the device a step.
    numbers: Tensor,
    logits: Tensor,
    /// What a step's operators write: without allocations a graph's kernels follow each other closely.
    buffers: Buffers,
    #[cfg(feature = "cuda")]
    graph: Option<candle_core::cuda_backend::cudarc::driver::CudaGraph>,
}

impl<'a> Decode<'a> {
    /// For sequences of up to `longest` tokens.
    pub fn new(model: &'a Model, cache: &'a Cache, sequences: usize, longest: usize) -> Result<Self> {
        let device = &model.device;
        let numbers = Tensor::zeros((3, sequences), DType::U32, device)?;
        let row = |i| numbers.narrow(0, i, 1)?.squeeze(0);
        let (positions, slots, lengths) = (row(0)?, row(1)?, row(2)?);
        Ok(Decode {
            model,
            cache,
            tokens: Tokens { ids: Tensor::zeros(sequences, DType::U32, device)?, positions, slots },
            paged: Paged {
                table: cache.table(device)?,
                lengths,
                places: Tensor::arange(0, longest as u32, device)?,
            },
            numbers,
            logits: Tensor::zeros((sequences, model.config.vocabulary), DType::F32, device)?,
            buffers: Buffers::new(),
            #[cfg(feature = "cuda")]
            graph: None,
        })
    }

    /// The next step: a token for each sequence, behind the ones that it has.
    pub fn set(&mut self, tokens: &[u32], lengths: &[usize]) -> Result<()> {
        let slot = |(sequence, &length): (usize, &usize)| self.cache.slot(sequence, length);
        let numbers = [
            lengths.iter().map(|&length| length as u32).collect::<Vec<_>>(),
            lengths.iter().enumerate().map(slot).collect(),
            lengths.iter().map(|&length| length as u32 + 1).collect(),
        ];
        let device = &self.model.device;
        self.tokens.ids.slice_set(&Tensor::new(tokens, device)?, 0, 0)?;
        self.numbers.slice_set(&Tensor::new(numbers.to_vec(), device)?, 0, 0)?;
        Ok(())
    }

    /// Logits of the tokens behind these.
    pub fn step(&mut self) -> Result<Tensor> {
        self.launch()?;
        Ok(self.logits.clone())
    }

    /// Queues the step's work.
    fn queue(&self) -> Result<()> {
        self.buffers.run(|| {
            let logits = self.model.forward(&self.tokens, &Attended::Pages(&self.paged), self.cache)?;
            Ok(self.logits.slice_set(&logits, 0, 0)?)
        })
    }

    #[cfg(not(feature = "cuda"))]
    pub fn launch(&mut self) -> Result<()> {
        self.queue()
    }

    /// The first step runs as it is, and makes ready what a graph cannot: kernels, scratch memory, constants. The second one is recorded.
    #[cfg(feature = "cuda")]
    pub fn launch(&mut self) -> Result<()> {
        use candle_core::cuda_backend::cudarc::driver::sys;

        let candle_core::Device::Cuda(cuda) = &self.model.device else { return self.queue() };
        if self.graph.is_none() {
            let _constants = cuda.enable_cuda_graph_htod_cache();
            self.queue()?;
            let stream = cuda.cuda_stream();
            stream.begin_capture(sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)?;
            // What is allocated while recording is freed while recording: the graph has all of it.
            let queued = self.queue();
            let flags = sys::CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
            let graph = stream.end_capture(flags);
            queued?;
            self.graph = graph?;
            return Ok(());
        }
        if let Some(graph) = &self.graph {
            graph.launch()?;
        }
        Ok(())
    }
}
