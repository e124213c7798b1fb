//! A model's weights: made by chance, or read from a checkpoint.

use std::path::Path;

use anyhow::{Context, Result, bail};
use candle_core::safetensors::MmapedSafetensors;
use candle_core::{DType, Device, Tensor};

/// Where weights come from.
pub enum Weights {
    /// Nowhere: normally distributed ones of this deviation.
    Random(f64),
    /// The safetensors files of a folder.
    Files(MmapedSafetensors),
}

impl Weights {
    /// All safetensors files of a folder.
    pub fn open(folder: &Path) -> Result<Self> {
        let entries = folder.read_dir().with_context(|| format!("looking into {}", folder.display()))?;
        let mut files: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        files.retain(|file| file.extension().is_some_and(|extension| extension == "safetensors"));
        if files.is_empty() {
            bail!("{} has no safetensors file", folder.display());
        }
        // SAFETY: the files are those of a checkpoint, which nothing changes meanwhile.
        Ok(Weights::Files(unsafe { MmapedSafetensors::multi(&files)? }))
    }

    /// The tensor of this name and shape in bf16.
    pub fn get(&self, name: &str, shape: &[usize], device: &Device) -> Result<Tensor> {
        let tensor = match self {
            // A norm's factors are about 1.
            Weights::Random(_) if shape.len() == 1 => Tensor::ones(shape, DType::F32, device)?,
            Weights::Random(deviation) => Tensor::randn(0f32, *deviation as f32, shape, device)?,
            Weights::Files(files) => files.load(name, device).with_context(|| format!("`{name}`"))?,
        };
        if tensor.dims() != shape {
            bail!("`{name}` was of shape {:?}; it must be {shape:?}, as config.json says", tensor.dims());
        }
        Ok(tensor.to_dtype(DType::BF16)?)
    }
}
