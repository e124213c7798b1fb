//! Llama on tilewright's kernels: prompts of different lengths are read at once into a paged cache, and go on a token of each at a time.
//!
//! ```sh
//! # A model that the emulator runs: with candle's operators, tilewright's in bf16, and with weights of 4 bits.
//! cargo run --release --example llama --features emulator
//! # Tokens a second of the shape of Llama 3 8B, weights by chance.
//! cargo run --release --example llama --features cuda -- bench --size 8b
//! # A checkpoint of a folder: config.json, *.safetensors, tokenizer.json.
//! cargo run --release --example llama --features cuda -- run --model FOLDER --kernels u4 --prompt "The capital of France"
//! ```

mod bench;
mod cache;
mod config;
mod decode;
mod generate;
mod model;
mod operators;
mod sample;
mod weights;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use candle_core::Device;
use tokenizers::Tokenizer;

use bench::Plan;
use config::Config;
use generate::generate;
use model::Model;
use operators::Kernels;
use sample::Sampler;
use weights::Weights;

const USAGE: &str = "\
llama run [--model FOLDER] [--prompt TEXT]... [--tokens N] [--temperature T] [--top-p P] [--seed N]
llama bench [--prefill N] [--batch N,...] [--context N] [--repeats N]
both: [--size tiny|8b] [--kernels candle,bf16,u4] [--gpu N]";

/// What the command line says.
struct Options {
    bench: bool,
    model: Option<PathBuf>,
    prompts: Vec<String>,
    size: Option<Config>,
    kernels: Vec<Kernels>,
    numbers: Vec<(String, String)>,
}

impl Options {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self> {
        let mut options = Options {
            bench: false,
            model: None,
            prompts: Vec::new(),
            size: None,
            kernels: Kernels::ALL.to_vec(),
            numbers: Vec::new(),
        };
        while let Some(argument) = arguments.next() {
            if argument == "run" || argument == "bench" {
                options.bench = argument == "bench";
                continue;
            }
            let Some(name) = argument.strip_prefix("--") else { bail!("{argument}?\n{USAGE}") };
            let value = arguments.next().with_context(|| format!("--{name} of what?\n{USAGE}"))?;
            match name {
                "model" => options.model = Some(value.into()),
                "prompt" => options.prompts.push(value),
                "size" => {
                    options.size = Some(match value.as_str() {
                        "tiny" => Config::tiny(),
                        "8b" => Config::llama3_8b(),
                        _ => bail!("--size was {value}; it must be tiny or 8b"),
                    });
                }
                "kernels" => {
                    let of = |name: &str| {
                        let found = Kernels::ALL.into_iter().find(|kernels| kernels.name() == name);
                        found.with_context(|| {
                            format!("--kernels was {name}; it must be of candle, bf16 and u4")
                        })
                    };
                    options.kernels = value.split(',').map(of).collect::<Result<_>>()?;
                }
                "tokens" | "temperature" | "top-p" | "seed" | "prefill" | "batch" | "context" | "repeats"
                | "gpu" => options.numbers.push((name.to_owned(), value)),
                _ => bail!("--{name}?\n{USAGE}"),
            }
        }
        Ok(options)
    }

    fn number<T: std::str::FromStr>(&self, name: &str, unless_said: T) -> Result<T> {
        match self.numbers.iter().rfind(|(of, _)| of == name) {
            None => Ok(unless_said),
            Some((_, value)) => {
                value.parse().map_err(|_| anyhow!("--{name} was {value}; it must be a number"))
            }
        }
    }

    /// A GPU, or where there is none the CPU for the emulator.
    fn device(&self) -> Result<Device> {
        #[cfg(feature = "cuda")]
        if candle_core::utils::cuda_is_available() {
            let device = Device::new_cuda_with_stream(self.number("gpu", 0)?)?;
            if let Device::Cuda(cuda) = &device {
                // SAFETY: all work is on this one stream. With events no graph can be recorded.
                unsafe { cuda.disable_event_tracking() };
            }
            return Ok(device);
        }
        Ok(Device::Cpu)
    }
}

fn main() -> Result<()> {
    let options = Options::parse(std::env::args().skip(1))?;
    let device = options.device()?;
    if options.bench { timed(&options, &device) } else { run(&options, &device) }
}

fn timed(options: &Options, device: &Device) -> Result<()> {
    let gpu = device.is_cuda();
    let config =
        options.size.clone().unwrap_or_else(|| if gpu { Config::llama3_8b() } else { Config::tiny() });
    let batches = match options.numbers.iter().rfind(|(name, _)| name == "batch") {
        Some((_, list)) => list.split(',').map(str::parse).collect::<Result<_, _>>().context("--batch")?,
        None if gpu => vec![1, 16, 64],
        None => vec![1, 3],
    };
    let plan = Plan {
        kernels: options.kernels.clone(),
        prompt: options.number("prefill", if gpu { 4096 } else { 40 })?,
        batches,
        context: options.number("context", if gpu { 1024 } else { 70 })?,
        repeats: options.number("repeats", if gpu { 20 } else { 1 })?,
    };
    bench::bench(&config, &plan, device)
}

fn run(options: &Options, device: &Device) -> Result<()> {
    let gpu = device.is_cuda();
    let count = options.number("tokens", if gpu { 64 } else { 4 })?;
    let (temperature, top_p) = (options.number("temperature", 0.0)?, options.number("top-p", 0.95)?);
    let Some(folder) = &options.model else {
        let config = options.size.clone().unwrap_or_else(Config::tiny);
        let prompts =
            [5, 70, 1].map(|length| (0..length).map(|i| (i * 31 % config.vocabulary) as u32).collect());
        for &kernels in &options.kernels {
            let model = Model::new(config.clone(), kernels, &Weights::Random(0.02), 128 + count, device)?;
            let mut sampler = Sampler::new(temperature, top_p, options.number("seed", 0)?);
            let texts = generate(&model, &prompts, count, &mut sampler, |_, _| ())?;
            println!("{}: {texts:?}", kernels.name());
        }
        return Ok(());
    };
    let tokenizer = tokenizer(folder)?;
    let mut texts = options.prompts.clone();
    if texts.is_empty() {
        texts.push("The capital of France is".to_owned());
    }
    let encode = |text: &String| {
        let encoding = tokenizer.encode(text.as_str(), true).map_err(|error| anyhow!("{text:?}: {error}"))?;
        Ok(encoding.get_ids().to_vec())
    };
    let prompts = texts.iter().map(encode).collect::<Result<Vec<_>>>()?;
    let longest = prompts.iter().map(Vec::len).max().unwrap_or(0) + count;
    for &kernels in &options.kernels {
        let config = Config::read(&folder.join("config.json"))?;
        let model = Model::new(config, kernels, &Weights::open(folder)?, longest, device)?;
        let mut sampler = Sampler::new(temperature, top_p, options.number("seed", 0)?);
        let begin = std::time::Instant::now();
        let made = generate(&model, &prompts, count, &mut sampler, |_, _| ())?;
        for (prompt, tokens) in texts.iter().zip(&made) {
            let text = tokenizer.decode(tokens, true).map_err(|error| anyhow!("{tokens:?}: {error}"))?;
            println!("{}: {prompt}{}{text}", kernels.name(), if text.starts_with(' ') { "" } else { " " });
        }
        let tokens: usize = made.iter().map(Vec::len).sum();
        println!("{}: {tokens} tokens in {:.2} s", kernels.name(), begin.elapsed().as_secs_f64());
    }
    Ok(())
}

/// The tokenizer of a checkpoint's folder.
fn tokenizer(folder: &Path) -> Result<Tokenizer> {
    let file = folder.join("tokenizer.json");
    Tokenizer::from_file(&file).map_err(|error| anyhow!("{}: {error}", file.display()))
}
