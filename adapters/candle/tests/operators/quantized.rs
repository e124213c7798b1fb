use candle_core::{DType, Device, Module, Result, Tensor};
use tilewright_candle::quant::{
    Format, GptqVersion, Group, HalfType, Halves, Order, PackedWeights, QuantizedWeights, Scheme, ZeroPoints,
    Zeros,
};
use tilewright_candle::{Activation, CheckpointTensors, GatedLinear, QuantizedLinear, Workspace};

use crate::support::{BF16, close, device, random, wide};

/// What the weights stand for, as a tensor.
fn dequantized(weights: &QuantizedWeights) -> Result<Tensor> {
    let wide: Vec<f32> = weights.dequantize().iter().map(|&weight| weight as f32).collect();
    Tensor::from_vec(wide, &weights.shape()[..], &Device::Cpu)
}

fn scheme(format: Format, zeros: Zeros, scales: HalfType) -> Scheme {
    Scheme { format, group: Group::K128, zeros, scales }
}

#[test]
fn formats() -> Result<()> {
    let weight = random(&[80, 256], 1, DType::F32)?;
    let values: Vec<f32> = weight.flatten_all()?.to_vec1()?;
    for (format, zeros) in [
        (Format::U4, Zeros::Original),
        (Format::I8, Zeros::None),
        (Format::NF4, Zeros::None),
        (Format::E4M3, Zeros::None),
    ] {
        let scheme = scheme(format, zeros, HalfType::BF16);
        let expected = QuantizedWeights::quantize("w", &values, [80, 256], scheme).unwrap();
        let layer = QuantizedLinear::quantize("w", &weight, scheme)?;
        assert_eq!(layer.weights().shape(), [80, 256]);
        // One row as when decoding, many as of a prompt.
        for rows in [1, 40] {
            let x = random(&[1, rows, 256], 2, DType::BF16)?;
            let expected = wide(&x)?.broadcast_matmul(&dequantized(&expected)?.t()?)?;
            close(&layer.forward(&x)?, &expected, 2.0 * BF16);
        }
    }
    Ok(())
}

#[test]
fn bias_activation_and_a_workspace_that_is_kept() -> Result<()> {
    let weight = random(&[64, 1024], 3, DType::F32)?;
    let (x, bias) = (random(&[3, 1024], 4, DType::F16)?, random(&[64], 5, DType::F16)?);
    let scheme = scheme(Format::U4, Zeros::Original, HalfType::F16);
    let layer = QuantizedLinear::quantize("w", &weight, scheme)?;
    let plain = layer.forward(&x)?;
    let layer = layer.bias(bias.clone()).activation(Activation::Silu);
    let expected = wide(&plain)?.broadcast_add(&wide(&bias)?)?.silu()?;
    let workspace = Workspace::new();
    let first = layer.forward_with(&x, &workspace)?;
    close(&first, &expected, 0.01);
    // Its counters are zeros again: the second call gives the same bits.
    let (again, without) = (layer.forward_with(&x, &workspace)?, layer.forward(&x)?);
    let bits = |tensor: &Tensor| tensor.flatten_all()?.to_vec1::<half::f16>();
    assert_eq!(bits(&first)?, bits(&again)?);
    assert_eq!(bits(&first)?, bits(&without)?);
    Ok(())
}

#[test]
fn packed_files() -> Result<()> {
    let values: Vec<f32> = random(&[64, 128], 6, DType::F32)?.flatten_all()?.to_vec1()?;
    let scheme = scheme(Format::U4, Zeros::Original, HalfType::BF16);
    let weights = QuantizedWeights::quantize("layers.0.up", &values, [64, 128], scheme).unwrap();
    let file = PackedWeights::to_safetensors([&weights.pack(Order::B16).unwrap()]).unwrap();
    let layer = QuantizedLinear::from_packed("layers.0.up", &file, &device())?;
    let x = random(&[2, 128], 7, DType::BF16)?;
    close(&layer.forward(&x)?, &wide(&x)?.matmul(&dequantized(&weights)?.t()?)?, 2.0 * BF16);
    let error = QuantizedLinear::from_packed("layers.1.up", &file, &device()).err().unwrap().to_string();
    assert!(error.contains("`layers.1.up`") && error.starts_with("QuantizedLinear: "), "{error}");
    Ok(())
}

/// A checkpoint's words: eight codes of four bits each, along the first dimension or the last one.
struct Layer {
    codes: Vec<u8>,
    zeros: Vec<u8>,
    scales: Vec<half::f16>,
}

const N: usize = 64;
const K: usize = 256;
const GROUPS: usize = 2;

impl Layer {
    fn new() -> Result<Self> {
        let numbers =
            |count: usize, seed| -> Result<Vec<f32>> { random(&[count], seed, DType::F32)?.to_vec1() };
        let code = |x: f32| ((x + 1.0) * 7.99) as u8;
        Ok(Layer {
            codes: numbers(N * K, 8)?.into_iter().map(code).collect(),
            zeros: numbers(N * GROUPS, 9)?.into_iter().map(|x| code(x).clamp(1, 15)).collect(),
            scales: numbers(N * GROUPS, 10)?
                .into_iter()
                .map(|x| half::f16::from_f32(x * 0.01 + 0.02))
                .collect(),
        })
    }

    /// (code - zero) scale, (N, K).
    fn expected(&self) -> Result<Tensor> {
        let zeros = ZeroPoints::Packed(self.zeros.iter().map(|&zero| zero.into()).collect());
        let scales = Halves::F16(self.scales.clone());
        let codes = self.codes.clone();
        let weights = QuantizedWeights::new("w", Format::U4, Group::K128, [N, K], codes, scales, zeros);
        dequantized(&weights.unwrap())
    }

    /// The tensors of a file: (K, N) or (groups, N), codes in words along a dimension.
    fn file(&self, codes: (Vec<u32>, [usize; 2]), zeros: (Vec<u32>, [usize; 2])) -> Result<Vec<u8>> {
        let words = |(words, shape): (Vec<u32>, [usize; 2])| {
            let words = words.into_iter().map(u32::cast_signed).collect::<Vec<_>>();
            Tensor::from_vec(words, &shape[..], &Device::Cpu)
        };
        let scales = Tensor::from_vec(self.scales.clone(), (N, GROUPS), &Device::Cpu)?.t()?.contiguous()?;
        let tensors = [
            ("up.qweight".to_owned(), words(codes)?),
            ("up.qzeros".to_owned(), words(zeros)?),
            ("up.scales".to_owned(), scales),
        ];
        let path = std::env::temp_dir().join(format!("tilewright-candle-{}-{:p}", std::process::id(), self));
        candle_core::safetensors::save(&tensors.into(), &path)?;
        let file = std::fs::read(&path)?;
        std::fs::remove_file(&path)?;
        Ok(file)
    }
}

/// Words of eight codes, of which `code(word, nibble)` gives each.
fn pack(words: usize, code: impl Fn(usize, usize) -> u8) -> Vec<u32> {
    let word = |i| (0..8).fold(0, |word, nibble| word | u32::from(code(i, nibble)) << (4 * nibble));
    (0..words).map(word).collect()
}

#[test]
fn gptq_checkpoints() -> Result<()> {
    let layer = Layer::new()?;
    // Codes in words along K, zeros less one along N.
    let codes = pack(K / 8 * N, |word, nibble| layer.codes[word % N * K + word / N * 8 + nibble]);
    let zeros = pack(GROUPS * N / 8, |word, nibble| {
        let (group, row) = (word / (N / 8), word % (N / 8) * 8 + nibble);
        layer.zeros[row * GROUPS + group] - 1
    });
    let file = layer.file((codes, [K / 8, N]), (zeros, [GROUPS, N / 8]))?;
    let linear = QuantizedLinear::from_gptq("up", &file, 4, Group::K128, GptqVersion::V1, &device())?;
    let x = random(&[5, K], 11, DType::F16)?;
    let y = linear.forward(&x)?;
    close(&y, &wide(&x)?.matmul(&layer.expected()?.t()?)?, BF16);
    // The same of loaded tensors.
    let all = candle_core::safetensors::load_buffer(&file, &device())?;
    let [qweight, qzeros, scales] = ["up.qweight", "up.qzeros", "up.scales"].map(|name| &all[name]);
    let tensors = CheckpointTensors { qweight, qzeros, scales, g_idx: None };
    let loaded = QuantizedLinear::from_gptq_tensors("up", &tensors, 4, Group::K128, GptqVersion::V1)?;
    close(&loaded.forward(&x)?, &wide(&y)?, 0.0);
    let tensors = CheckpointTensors { scales: qweight, ..tensors };
    let error = QuantizedLinear::from_gptq_tensors("up", &tensors, 4, Group::K128, GptqVersion::V1);
    let error = error.err().unwrap().to_string();
    assert!(error.contains("`scales` was of i32; it must be of f16 or bf16"), "{error}");
    Ok(())
}

#[test]
fn awq_checkpoints() -> Result<()> {
    let layer = Layer::new()?;
    // Along N, nibbles in the order 0, 2, 4, 6, 1, 3, 5, 7.
    let neighbour = [0, 2, 4, 6, 1, 3, 5, 7];
    let codes = pack(K * N / 8, |word, nibble| {
        let (k, row) = (word / (N / 8), word % (N / 8) * 8 + neighbour[nibble]);
        layer.codes[row * K + k]
    });
    let zeros = pack(GROUPS * N / 8, |word, nibble| {
        let (group, row) = (word / (N / 8), word % (N / 8) * 8 + neighbour[nibble]);
        layer.zeros[row * GROUPS + group]
    });
    let file = layer.file((codes, [K, N / 8]), (zeros, [GROUPS, N / 8]))?;
    let linear = QuantizedLinear::from_awq("up", &file, Group::K128, &device())?;
    let x = random(&[5, K], 12, DType::F16)?;
    let y = linear.forward(&x)?;
    close(&y, &wide(&x)?.matmul(&layer.expected()?.t()?)?, BF16);
    let all = candle_core::safetensors::load_buffer(&file, &device())?;
    let [qweight, qzeros, scales] = ["up.qweight", "up.qzeros", "up.scales"].map(|name| &all[name]);
    let tensors = CheckpointTensors { qweight, qzeros, scales, g_idx: None };
    close(&QuantizedLinear::from_awq_tensors("up", &tensors, Group::K128)?.forward(&x)?, &wide(&y)?, 0.0);
    Ok(())
}

#[test]
fn gates_of_narrow_weights() -> Result<()> {
    let (gate, up) = (random(&[40, 256], 1, DType::F32)?, random(&[40, 256], 2, DType::F32)?);
    let scheme = scheme(Format::U4, Zeros::Original, HalfType::BF16);
    let narrow = |weight: &Tensor| -> Result<Tensor> {
        let values: Vec<f32> = weight.flatten_all()?.to_vec1()?;
        dequantized(&QuantizedWeights::quantize("w", &values, [40, 256], scheme).unwrap())
    };
    let (wide_gate, wide_up) = (narrow(&gate)?, narrow(&up)?);
    let weight = GatedLinear::interleave(&gate, &up)?;
    let layer = GatedLinear::quantized(QuantizedLinear::quantize("w", &weight, scheme)?);
    for rows in [1, 40] {
        let x = random(&[1, rows, 256], 3, DType::BF16)?;
        let product = |weight: &Tensor| wide(&x)?.broadcast_matmul(&weight.t()?);
        let expected = (product(&wide_gate)?.silu()? * product(&wide_up)?)?;
        let tolerance = 4.0 * BF16 * expected.abs()?.max_all()?.to_scalar::<f32>()?.max(1.0);
        close(&layer.forward_with(&x, &Workspace::new())?, &expected, tolerance);
    }
    Ok(())
}
