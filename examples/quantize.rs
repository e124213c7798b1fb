//! Quantises weights of a safetensors file to every narrow format, packs them into another file, reads that back and
//! compares. No GPU is needed.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use safetensors::tensor::{Dtype, TensorView};
use safetensors::{SafeTensors, serialize};
use tilewright::f16;
use tilewright::quant::{Format, Group, HalfType, Order, PackedWeights, QuantizedWeights, Scheme, Zeros};
use tilewright_support::Result;
use tilewright_support::example::exit;
use tilewright_support::random::normal;

/// Quantises weights of a file that it writes first, packs them, and checks what comes back.
#[derive(Parser)]
#[command(name = "quantize")]
struct Arguments {
    /// Rows and columns of the weights: output and input features
    #[arg(num_args = 2, value_names = ["N", "K"], default_values = ["1024", "4096"], value_parser = clap::value_parser!(u32).range(1..))]
    shape: Vec<u32>,
    /// The number format: u4, i4, u2, i2, u1, i1, i8, nf4, fp4, e4m3 or e5m2 [default: all]
    #[arg(long, value_parser = parse::<Format>)]
    format: Option<Format>,
    /// Weights that share a scale: 32, 64, 128 or row
    #[arg(long, default_value = "128", value_parser = parse::<Group>)]
    group: Group,
    /// How zeros shift weights: none, original, rescaled or packed [default: original for u4, u2 and u1, none for the others]
    #[arg(long, value_parser = parse::<Zeros>)]
    zeros: Option<Zeros>,
    /// Where the files are written
    #[arg(long, default_value = "target/quantize")]
    folder: PathBuf,
}

fn parse<T: std::str::FromStr>(name: &str) -> Result<T, String> {
    name.parse().map_err(|_| "there is none of this name".to_owned())
}

/// The tensor's name in the file.
const NAME: &str = "layers.0.up_proj";

fn main() -> ExitCode {
    exit(run(&Arguments::parse()))
}

fn run(arguments: &Arguments) -> Result<()> {
    let [n, k] = [arguments.shape[0] as usize, arguments.shape[1] as usize];
    std::fs::create_dir_all(&arguments.folder)?;
    let wide = arguments.folder.join("wide.safetensors");
    write_weights(&wide, [n, k])?;
    let (weights, shape) = read_weights(&wide)?;
    println!("{}: {NAME} {shape:?} of f16, {} bytes", wide.display(), weights.len() * 2);

    let formats = arguments.format.map_or(Format::ALL.to_vec(), |format| vec![format]);
    let mut all = Vec::new();
    for format in formats {
        let unsigned = format.is_integer() && format.range().0 == 0.0;
        let zeros = arguments.zeros.unwrap_or(if unsigned { Zeros::Original } else { Zeros::None });
        let scheme = Scheme { format, group: arguments.group, zeros, scales: HalfType::F16 };
        let start = Instant::now();
        let quantized = QuantizedWeights::quantize(format!("{NAME}.{format}"), &weights, shape, scheme)?;
        println!("{format}, {}, zeros {zeros}: quantised in {:.1?}", arguments.group, start.elapsed());
        println!("  relative error {:.4}", relative_error(&quantized, &weights));
        all.push(quantized);
    }

    let packed = all.iter().map(|weights| weights.pack(Order::B16)).collect::<Result<Vec<_>, _>>()?;
    let narrow = arguments.folder.join("packed.safetensors");
    std::fs::write(&narrow, PackedWeights::to_safetensors(&packed)?)?;
    println!("{}:", narrow.display());
    let file = std::fs::read(&narrow)?;
    for weights in &all {
        let packed = PackedWeights::from_safetensors(weights.name(), &file)?;
        if packed.unpack()? != *weights {
            return Err(format!("{} did not come back as it was packed", weights.name()).into());
        }
        let halves = packed.scales().len() + packed.zeros().map_or(0, |zeros| zeros.len());
        let bytes = packed.codes().len() + halves * 2;
        let bits = bytes as f64 * 8.0 / (n * k) as f64;
        println!("  {}: {bytes} bytes, {bits:.2} bits a weight, unpacks to what was packed", packed.name());
    }
    Ok(())
}

/// Normal weights, as small as those of trained layers are.
fn write_weights(path: &Path, [n, k]: [usize; 2]) -> Result<()> {
    let weights = normal::<f32>(1, n * k);
    let bytes: Vec<u8> = weights.iter().flat_map(|w| f16::from_f32(w * 0.02).to_le_bytes()).collect();
    let view = TensorView::new(Dtype::F16, vec![n, k], &bytes)?;
    std::fs::write(path, serialize(HashMap::from([(NAME, view)]), None)?)?;
    Ok(())
}

fn read_weights(path: &Path) -> Result<(Vec<f16>, [usize; 2])> {
    let file = std::fs::read(path)?;
    let tensors = SafeTensors::deserialize(&file)?;
    let tensor = tensors.tensor(NAME)?;
    let (Dtype::F16, &[n, k]) = (tensor.dtype(), tensor.shape()) else {
        return Err(format!("{NAME} is no matrix of f16").into());
    };
    let weights = tensor.data().as_chunks().0.iter().map(|&bytes| f16::from_le_bytes(bytes));
    Ok((weights.collect(), [n, k]))
}

/// The distance of the quantised weights from the wide ones, relative to their length.
fn relative_error(quantized: &QuantizedWeights, weights: &[f16]) -> f64 {
    let [n, k] = quantized.shape();
    let (mut distance, mut length) = (0.0, 0.0);
    for row in 0..n {
        for (x, w) in quantized.dequantize_row(row).iter().zip(&weights[row * k..]) {
            let w = w.to_f64();
            distance += (x - w).powi(2);
            length += w.powi(2);
        }
    }
    (distance / length).sqrt()
}
