//! Layers of checkpoints in safetensors files.

use std::collections::BTreeMap;

use safetensors::Dtype;
use safetensors::tensor::TensorView;
use tilewright::f16;
use tilewright::quant::{CheckpointLayer, GptqVersion, Group, QuantizedWeights};

/// The parts of a file: type, shape, bytes.
type Parts = BTreeMap<String, (Dtype, Vec<usize>, Vec<u8>)>;

fn integers(shape: &[usize], word: u32) -> (Dtype, Vec<usize>, Vec<u8>) {
    let count = shape.iter().product();
    (Dtype::I32, shape.to_vec(), [word.to_le_bytes()].repeat(count).concat())
}

/// N = 16 and K = 64 in groups of 32, of 4 bits: all codes 9, zeros that are stored as 5, scales 0.5.
fn parts(qweight: [usize; 2]) -> Parts {
    let scales = (Dtype::F16, vec![2, 16], [f16::from_f32(0.5).to_le_bytes()].repeat(32).concat());
    let parts = [
        ("qweight", integers(&qweight, 0x9999_9999)),
        ("qzeros", integers(&[2, 2], 0x5555_5555)),
        ("scales", scales),
    ];
    parts.into_iter().map(|(part, tensor)| (format!("mlp.{part}"), tensor)).collect()
}

fn file(parts: &Parts) -> Vec<u8> {
    let views = parts.iter().map(|(name, (dtype, shape, bytes))| {
        (name.as_str(), TensorView::new(*dtype, shape.clone(), bytes).unwrap())
    });
    safetensors::serialize(views, None).unwrap()
}

#[test]
fn layers_are_read_from_files() {
    let gptq = parts([8, 16]);
    let layer = CheckpointLayer::read("mlp", &file(&gptq)).unwrap();
    for (version, weight) in [(GptqVersion::V1, 1.5), (GptqVersion::V2, 2.0)] {
        let weights = QuantizedWeights::from_gptq("mlp", &layer.gptq(4, Group::K32, version)).unwrap();
        assert_eq!(weights.shape(), [16, 64]);
        assert_eq!(weights.dequantize(), [weight; 16 * 64]);
    }
    let awq = CheckpointLayer::read("mlp", &file(&parts([64, 2]))).unwrap();
    let weights = QuantizedWeights::from_awq("mlp", &awq.awq(Group::K32)).unwrap();
    assert_eq!(weights.dequantize(), [2.0; 16 * 64]);
}

#[test]
fn g_idx_is_read_and_says_how_many_features_there_are() {
    let mut gptq = parts([8, 16]);
    let mut g_idx = integers(&[63], 0);
    g_idx.2[32 * 4..].as_chunks_mut().0.iter_mut().for_each(|index| *index = 1u32.to_le_bytes());
    gptq.insert("mlp.g_idx".to_owned(), g_idx);
    let layer = CheckpointLayer::read("mlp", &file(&gptq)).unwrap();
    let tensors = layer.gptq(4, Group::K32, GptqVersion::V2);
    assert_eq!(QuantizedWeights::from_gptq("mlp", &tensors).unwrap().shape(), [16, 63]);
    gptq.insert("mlp.g_idx".to_owned(), integers(&[64], 0));
    let layer = CheckpointLayer::read("mlp", &file(&gptq)).unwrap();
    let tensors = layer.gptq(4, Group::K32, GptqVersion::V2);
    let message = QuantizedWeights::from_gptq("mlp", &tensors).unwrap_err().to_string();
    assert!(message.starts_with("`g_idx` of the u4 weights `mlp`, groups of 32, was 0 at 32"), "{message}");
}

#[test]
fn other_files_are_errors() {
    let message = |file: &[u8]| CheckpointLayer::read("mlp", file).unwrap_err().to_string();
    assert!(message(b"").starts_with("`file` of the weights `mlp` was "));
    for part in ["qweight", "qzeros", "scales"] {
        let mut without = parts([8, 16]);
        without.remove(&format!("mlp.{part}"));
        let expected = format!(
            "`{part}` of the weights `mlp` was missing; it must be the tensor `mlp.{part}` of the file"
        );
        assert_eq!(message(&file(&without)), expected);
    }
    for (part, tensor, expected) in [
        ("qweight", (Dtype::U8, vec![8, 16], vec![0; 128]), "of U8; it must be of I32"),
        ("qzeros", (Dtype::F32, vec![2, 2], vec![0; 16]), "of F32; it must be of I32"),
        ("g_idx", (Dtype::I64, vec![64], vec![0; 512]), "of I64; it must be of I32"),
        ("scales", (Dtype::F32, vec![2, 16], vec![0; 128]), "of F32; it must be of F16 or BF16"),
        ("scales", (Dtype::F16, vec![32], vec![0; 64]), "of shape [32]; it must be a matrix"),
        ("qweight", (Dtype::I32, vec![128], vec![0; 512]), "of shape [128]; it must be a matrix"),
    ] {
        let mut other = parts([8, 16]);
        other.insert(format!("mlp.{part}"), tensor);
        assert_eq!(message(&file(&other)), format!("`{part}` of the weights `mlp` was {expected}"));
    }
    let mut empty = parts([8, 16]);
    empty.insert("mlp.qweight".to_owned(), (Dtype::I32, vec![1 << 62, 0], vec![]));
    let layer = CheckpointLayer::read("mlp", &file(&empty)).unwrap();
    let tensors = layer.gptq(4, Group::K32, GptqVersion::V1);
    let message = QuantizedWeights::from_gptq("mlp", &tensors).unwrap_err().to_string();
    assert!(message.starts_with("`shape` of the u4 weights `mlp`, groups of 32, was [16, "), "{message}");

    let layer = CheckpointLayer::read("mlp", &file(&parts([8, 16]))).unwrap();
    for bits in [0, 3, 64] {
        let tensors = layer.gptq(bits, Group::K32, GptqVersion::V1);
        let message = QuantizedWeights::from_gptq("mlp", &tensors).unwrap_err().to_string();
        assert!(message.starts_with("`bits` of the weights `mlp`"), "{message}");
    }
}
