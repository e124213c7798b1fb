//! Linear layers of narrow weights.

use std::sync::Mutex;

use candle_core::{DType, Device, Module, Result, Tensor};
use tilewright::TensorViewMut;
use tilewright::ops::{Activation, DequantGemm, DequantViews, DeviceWeights, HalfElement};
use tilewright::quant::{
    AwqTensors, CheckpointLayer, GptqTensors, GptqVersion, Group, Halves, Order, PackedWeights,
    QuantizedWeights, Scheme,
};

use crate::Error;
use crate::call::{Call, Held, Operand, Outcome, Room, refuse};
use crate::element::{Native, half};
use crate::memory::{Place, Trouble};

/// y = act(x Wᵀ + bias) of narrow weights: u4, i4, u2, i2, u1, i1, i8, nf4, fp4, fp8.
///
/// Weights lie on the device in the packed form that kernels read (docs/quantized-weights.md of tilewright). x is (.., in features), of the type that the scales
/// have, f16 or bf16, and so is the result.
pub struct QuantizedLinear {
    weights: DeviceWeights,
    bias: Option<Tensor>,
    activation: Activation,
}

impl QuantizedLinear {
    /// Of packed weights, on a device of candle's.
    pub fn new(packed: &PackedWeights, device: &Device) -> Result<Self> {
        made(|| {
            let place = Place::on("device", device)?;
            let weights = DeviceWeights::upload(place.device(), packed)?;
            Ok(QuantizedLinear { weights, bias: None, activation: Activation::Identity })
        })
    }

    /// The layer `name` of a safetensors file of packed weights, which [`PackedWeights::to_safetensors`] made.
    pub fn from_packed(name: &str, file: &[u8], device: &Device) -> Result<Self> {
        Self::new(&made(|| Ok(PackedWeights::from_safetensors(name, file)?))?, device)
    }

    /// The layer `name` of a GPTQ checkpoint's safetensors file, with what its `quantization_config` says: `bits` (2, 4 or 8), `group_size` and
    /// `checkpoint_format`. Exact. Checkpoints in activation order are refused.
    pub fn from_gptq(
        name: &str,
        file: &[u8],
        bits: u32,
        group: Group,
        version: GptqVersion,
        device: &Device,
    ) -> Result<Self> {
        let packed = made(|| {
            let layer = CheckpointLayer::read(name, file)?;
            Ok(QuantizedWeights::from_gptq(name, &layer.gptq(bits, group, version))?.pack(Order::B16)?)
        });
        Self::new(&packed?, device)
    }

    /// The layer `name` of an AWQ checkpoint's safetensors file (AutoAWQ's `gemm` version), with its `group_size`. Exact.
    pub fn from_awq(name: &str, file: &[u8], group: Group, device: &Device) -> Result<Self> {
        let packed = made(|| {
            let layer = CheckpointLayer::read(name, file)?;
            Ok(QuantizedWeights::from_awq(name, &layer.awq(group))?.pack(Order::B16)?)
        });
        Self::new(&packed?, device)
    }

    /// [`from_gptq`](Self::from_gptq) of tensors that are loaded already, onto the device of `qweight`.
    pub fn from_gptq_tensors(
        name: &str,
        tensors: &CheckpointTensors<'_>,
        bits: u32,
        group: Group,
        version: GptqVersion,
    ) -> Result<Self> {
        let HostTensors { lines, n, qweight, qzeros, scales, g_idx } = tensors.to_host()?;
        let k = g_idx.as_ref().map_or(lines.saturating_mul((32 / bits.max(1)) as usize), Vec::len);
        let (qweight, qzeros, scales, g_idx) = (&qweight, &qzeros, &scales, g_idx.as_deref());
        let layer = GptqTensors { bits, group, version, shape: [n, k], qweight, qzeros, scales, g_idx };
        let packed = made(|| Ok(QuantizedWeights::from_gptq(name, &layer)?.pack(Order::B16)?));
        Self::new(&packed?, tensors.qweight.device())
    }

    /// [`from_awq`](Self::from_awq) of tensors that are loaded already, onto the device of `qweight`.
    pub fn from_awq_tensors(name: &str, tensors: &CheckpointTensors<'_>, group: Group) -> Result<Self> {
        let HostTensors { lines, n, qweight, qzeros, scales, .. } = tensors.to_host()?;
        let layer =
            AwqTensors { group, shape: [n, lines], qweight: &qweight, qzeros: &qzeros, scales: &scales };
        let packed = made(|| Ok(QuantizedWeights::from_awq(name, &layer)?.pack(Order::B16)?));
        Self::new(&packed?, tensors.qweight.device())
    }

    /// Rounds a weight (out features, in features) of f16, bf16 or f32 on the host, and puts it on the weight's device. The scales' type is that
    /// of the activations.
    pub fn quantize(name: &str, weight: &Tensor, scheme: Scheme) -> Result<Self> {
        let shape = weight.dims2()?;
        let wide: Vec<f32> =
            weight.to_device(&Device::Cpu)?.to_dtype(DType::F32)?.flatten_all()?.to_vec1()?;
        let packed =
            made(|| Ok(QuantizedWeights::quantize(name, &wide, shape.into(), scheme)?.pack(Order::B16)?));
        Self::new(&packed?, weight.device())
    }

    /// With a bias (out features), of the activations' type.
    pub fn bias(self, bias: Tensor) -> Self {
        QuantizedLinear { bias: Some(bias), ..self }
    }
    /// With this activation.
    pub fn activation(self, activation: Activation) -> Self {
        QuantizedLinear { activation, ..self }
    }
    /// The weights.
    pub fn weights(&self) -> &DeviceWeights {
        &self.weights
    }

    /// As `forward`, with scratch memory that is kept from call to call: it saves an allocation.
    pub fn forward_with(&self, x: &Tensor, workspace: &Workspace) -> Result<Tensor> {
        self.apply(x, Some(workspace))
    }

    fn apply(&self, x: &Tensor, workspace: Option<&Workspace>) -> Result<Tensor> {
        let with_bias;
        let tensors: &[_] = match &self.bias {
            None => &[("x", x)],
            Some(bias) => {
                with_bias = [("x", x), ("bias", bias)];
                &with_bias
            }
        };
        Call::run("QuantizedLinear", tensors, |call| {
            let held = Held::new("x", x);
            let bias = self.bias.as_ref().map(|bias| Held::new("bias", bias));
            half!("x" x, T => {
                let x = call.read::<T>(&held)?;
                let bias = bias.as_ref().map(|bias| call.read::<T>(bias)).transpose()?;
                self.queue(call, &x, bias.as_ref(), workspace)
            })
        })
    }

    fn queue<T: Native + HalfElement>(
        &self,
        call: &Call<'_>,
        x: &Operand<'_, T>,
        bias: Option<&Operand<'_, T>>,
        workspace: Option<&Workspace>,
    ) -> Outcome<Tensor> {
        let (x, bias) = (x.view(), bias.map(Operand::view));
        let Some((&columns, rows)) = x.shape().split_last() else {
            return refuse("x", "of no dimension", "of 1 dimension or more");
        };
        let [features, _] = self.weights.shape();
        let shape: Vec<usize> = rows.iter().copied().chain([features]).collect();
        let rows = rows.iter().product();
        let x = x.reshape(&[rows, columns])?;
        let product = DequantGemm::new().activation(self.activation);
        let product = match &bias {
            Some(bias) => product.bias(bias),
            None => product,
        };
        call.write::<T>(&shape, |y| {
            let mut y = y.reshape(&[rows, features])?;
            let plan = product.plan(&x, &self.weights, &y)?;
            let mut run = |workspace: Option<TensorViewMut<'_, f32>>| {
                let mut views = DequantViews { bias: bias.clone(), workspace, tokens: None };
                Ok(plan.run(call.stream(), &x, &self.weights, &mut y, &mut views)?)
            };
            match (plan.workspace_len(), workspace) {
                (0, _) => run(None),
                (len, Some(workspace)) => workspace.lend(call, len, |room| run(Some(room))),
                (len, None) => call.scratch(len)?.lend(call, |room| run(Some(room))),
            }
        })
    }
}

/// The tensors of one linear layer of a GPTQ or AWQ checkpoint, as their files have them.
#[derive(Clone, Copy, Debug)]
pub struct CheckpointTensors<'a> {
    /// Codes in words of i32 or u32: (in features / codes of a word, out features), or of AWQ (in features, out features / 8).
    pub qweight: &'a Tensor,
    /// Zeros in words: (groups, out features / codes of a word).
    pub qzeros: &'a Tensor,
    /// Scales (groups, out features), of f16 or bf16.
    pub scales: &'a Tensor,
    /// The group of each input feature, of GPTQ, if the checkpoint has them.
    pub g_idx: Option<&'a Tensor>,
}

/// The same in the host's memory.
struct HostTensors {
    /// Of `qweight`.
    lines: usize,
    /// Columns of `scales`.
    n: usize,
    qweight: Vec<i32>,
    qzeros: Vec<i32>,
    scales: Halves,
    g_idx: Option<Vec<i32>>,
}

impl CheckpointTensors<'_> {
    fn to_host(self) -> Result<HostTensors> {
        let named = [("qweight", self.qweight), ("qzeros", self.qzeros), ("scales", self.scales)];
        let tensors: Vec<_> = named.into_iter().chain(self.g_idx.map(|g_idx| ("g_idx", g_idx))).collect();
        let wrong = |name, was: String, allowed: &'static str| {
            let source = tilewright::Error::argument(name, was, allowed);
            candle_core::Error::from(Error::new("QuantizedLinear", &tensors, source))
        };
        let words = |name, tensor: &Tensor| {
            let flat = tensor.to_device(&Device::Cpu)?.flatten_all()?;
            match flat.dtype() {
                DType::I32 => flat.to_vec1::<i32>(),
                DType::U32 => Ok(flat.to_vec1::<u32>()?.into_iter().map(u32::cast_signed).collect()),
                other => Err(wrong(name, format!("of {}", other.as_str()), "of i32 or u32")),
            }
        };
        let matrix = |name, tensor: &Tensor| match *tensor.dims() {
            [rows, columns] => Ok([rows, columns]),
            _ => Err(wrong(name, format!("of shape {:?}", tensor.dims()), "a matrix")),
        };
        let flat = self.scales.to_device(&Device::Cpu)?.flatten_all()?;
        let scales = match flat.dtype() {
            DType::F16 => Halves::F16(flat.to_vec1()?),
            DType::BF16 => Halves::BF16(flat.to_vec1()?),
            other => return Err(wrong("scales", format!("of {}", other.as_str()), "of f16 or bf16")),
        };
        let ([lines, _], [_, n]) = (matrix("qweight", self.qweight)?, matrix("scales", self.scales)?);
        Ok(HostTensors {
            lines,
            n,
            qweight: words("qweight", self.qweight)?,
            qzeros: words("qzeros", self.qzeros)?,
            scales,
            g_idx: self.g_idx.map(|g_idx| words("g_idx", g_idx)).transpose()?,
        })
    }
}

/// What is made without tensors of candle's.
fn made<R>(f: impl FnOnce() -> Outcome<R>) -> Result<R> {
    f().map_err(|trouble| match trouble {
        Trouble::Ours(source) => Error::new("QuantizedLinear", &[], source).into(),
        Trouble::Candle(error) => error,
    })
}

impl Module for QuantizedLinear {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.apply(x, None)
    }
}

/// Scratch memory of [`QuantizedLinear::forward_with`], for any number of layers.
///
/// One is for one stream of candle's, and with candle's default stream, which is another in each thread, for one thread. A graph that was captured with it
/// uses it too: it runs on that stream, as long as the workspace lives, and all calls that it is captured from were made once before, so that
/// the workspace has the memory that they need.
#[derive(Default)]
pub struct Workspace {
    room: Mutex<Option<Room<f32>>>,
}

impl Workspace {
    /// Without memory; the first call that needs some allocates it, and a later one that needs more replaces it.
    pub fn new() -> Self {
        Self::default()
    }

    fn lend(
        &self,
        call: &Call<'_>,
        len: usize,
        f: impl FnOnce(TensorViewMut<'_, f32>) -> Outcome<()>,
    ) -> Outcome<()> {
        let mut room = self.room.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let kept = match room.take() {
            Some(kept) if kept.len() >= len && kept.is_of(call) => kept,
            _ => call.lasting_scratch(len)?,
        };
        room.insert(kept).lend(call, f)
    }
}
