//! Packed weights and checkpoints, damaged: an error, or weights that are written as they were read.

use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use tilewright::Device;
use tilewright::ops::DeviceWeights;
use tilewright::quant::{
    CheckpointLayer, GptqVersion, Group, HalfType, Order, PackedWeights, QuantizedWeights, Scheme,
};
use tilewright_support::random::normal;

use crate::dequant::scheme;
use crate::random::Random;
use crate::{Call, Outcome};

pub fn case(random: &mut Random, device: &Device, call: &mut Call) -> Outcome {
    // Most damage is refused soon, so several are tried.
    for _ in 0..20 {
        match random.below(3) {
            0 => bytes(random, device, call)?,
            1 => file(random, call)?,
            _ => checkpoint(random, call)?,
        }
    }
    Ok(())
}

fn packed(random: &mut Random, call: &mut Call) -> tilewright::Result<PackedWeights> {
    let scales = random.pick(&[HalfType::F16, HalfType::BF16]);
    let scheme: Scheme = scheme(random, scales);
    let [n, k] = [random.within(1..=70), random.within(1..=140)];
    call.set(format!("packed weights of {scheme:?} [{n}, {k}]"));
    let weights = QuantizedWeights::quantize("w", &normal::<f32>(random.next(), n * k), [n, k], scheme)?;
    let order = if scheme.format.is_integer() && random.one_in(2) { Order::B8 } else { Order::B16 };
    weights.pack(order)
}

/// Changes some bytes, mostly among the first `head`.
fn damage(random: &mut Random, bytes: &mut Vec<u8>, head: usize, call: &mut Call) {
    for _ in 0..random.within(0..=3) {
        let most = if random.one_in(3) { bytes.len() } else { head.min(bytes.len()) };
        if most == 0 {
            return;
        }
        let at = random.below(most);
        match random.below(8) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = random.next() as u8,
            2 => bytes[at] = random.pick(b"0123456789\"{}[],:-"),
            3 => bytes.truncate(at),
            4 => bytes.extend(vec![0; random.within(1..=9)]),
            5 => drop(bytes.remove(at)),
            6 => bytes.insert(at, random.pick(b"09{}[]\",\0")),
            _ => {
                let word = random.pick(&[0, 1, 1 << 31, 1 << 32, 1 << 40, u64::MAX, u64::MAX - 63, 1 << 63]);
                let end = bytes.len().min(at + 8);
                let len = end - at;
                bytes[at..end].copy_from_slice(&word.to_le_bytes()[..len]);
            }
        }
        call.add(format!(" {at}"));
    }
}

/// Weights that were read can be used.
fn usable(random: &mut Random, weights: &PackedWeights) -> Outcome {
    if let Ok(natural) = weights.unpack() {
        let again = natural.pack(weights.header().order)?;
        assert_eq!(again.unpack()?, natural, "weights that are packed again");
        let row = random.below(natural.shape()[0]);
        let values = natural.dequantize_row(row);
        assert_eq!(values.len(), natural.shape()[1]);
    }
    Ok(())
}

fn bytes(random: &mut Random, device: &Device, call: &mut Call) -> Outcome {
    let whole = packed(random, call)?;
    call.add(format!(", {:?}, bytes damaged at", whole.header().order));
    let mut bytes = whole.to_bytes();
    damage(random, &mut bytes, 64, call);
    if let Ok(read) = PackedWeights::from_bytes("w", &bytes) {
        assert_eq!(read.to_bytes(), bytes, "weights that are written again");
        usable(random, &read)?;
        // Codes that are no numbers are refused.
        DeviceWeights::upload(device, &read).ok();
    }
    Ok(())
}

fn file(random: &mut Random, call: &mut Call) -> Outcome {
    let whole = packed(random, call)?;
    call.add(format!(", {:?}, file damaged at", whole.header().order));
    let mut bytes = PackedWeights::to_safetensors([&whole])?;
    let head = 8 + u64::from_le_bytes(*bytes.first_chunk().expect("a length")) as usize;
    damage(random, &mut bytes, head, call);
    if let Ok(read) = PackedWeights::from_safetensors("w", &bytes) {
        let again = PackedWeights::to_safetensors([&read])?;
        assert_eq!(PackedWeights::from_safetensors("w", &again)?, read, "weights that are written again");
        usable(random, &read)?;
    }
    Ok(())
}

/// A layer of a checkpoint, whose tensors may be of any shapes, read as every kind.
fn checkpoint(random: &mut Random, call: &mut Call) -> Outcome {
    let (bits, group) = (random.pick(&[2, 4, 8]), random.pick(&Group::ALL));
    let [n, k] = [8 * random.within(1..=6), 32 * random.within(1..=6)];
    let (per_word, groups) = ((32 / bits) as usize, group.count(k));
    let awq = random.one_in(2);
    let shapes = match awq {
        true => [[k, n / 8], [groups, n / 8]],
        false => [[k.div_ceil(per_word), n], [groups, n.div_ceil(per_word)]],
    };
    let mut tensors = vec![
        ("l.qweight", Dtype::I32, shapes[0].to_vec()),
        ("l.qzeros", Dtype::I32, shapes[1].to_vec()),
        ("l.scales", random.pick(&[Dtype::F16, Dtype::BF16]), vec![groups, n]),
    ];
    if random.one_in(2) {
        tensors.push(("l.g_idx", Dtype::I32, vec![k]));
    }
    if random.one_in(4) {
        let at = random.below(tensors.len());
        let size = random.below(tensors[at].2.len());
        tensors[at].2[size] = random.pick(&[0, 1, 7, 64]);
    }
    call.set(format!("a checkpoint of {bits} bits, {group}, AWQ {awq}, {tensors:?}, damaged at"));
    let data: Vec<Vec<u8>> = tensors
        .iter()
        .map(|(name, dtype, shape)| {
            let count: usize = shape.iter().product();
            match *name {
                // Groups in order, or in any.
                "l.g_idx" => (0..count as i32)
                    .map(|x| x / group.len(k) as i32)
                    .flat_map(|x| if random.one_in(500) { x - 1 } else { x }.to_le_bytes())
                    .collect(),
                "l.scales" => (0..count)
                    .flat_map(|_| [random.next() as u8, random.pick(&[0x10, 0x34, 0x3c, 0x40])])
                    .collect(),
                _ => (0..count * dtype.bitsize() / 8).map(|_| random.next() as u8).collect(),
            }
        })
        .collect();
    let views = tensors.iter().zip(&data).map(|((name, dtype, shape), data)| {
        TensorView::new(*dtype, shape.clone(), data).map(|view| (*name, view))
    });
    let mut bytes = safetensors::serialize(views.collect::<Result<Vec<_>, _>>()?, None)?;
    assert!(SafeTensors::deserialize(&bytes).is_ok());
    let head = 8 + u64::from_le_bytes(*bytes.first_chunk().expect("a length")) as usize;
    damage(random, &mut bytes, head, call);
    let Ok(layer) = CheckpointLayer::read("l", &bytes) else { return Ok(()) };
    for version in [GptqVersion::V1, GptqVersion::V2] {
        let bits = if random.one_in(8) { random.pick(&[0, 1, 3, 16, 33, u32::MAX]) } else { bits };
        let tensors = layer.gptq(bits, group, version);
        let imports = [
            QuantizedWeights::from_gptq("l", &tensors),
            QuantizedWeights::from_gptq_act_order("l", &tensors).map(|(weights, _)| weights),
            QuantizedWeights::from_awq("l", &layer.awq(group)),
        ];
        for weights in imports.into_iter().flatten() {
            usable(random, &weights.pack(Order::B16)?)?;
        }
    }
    Ok(())
}
