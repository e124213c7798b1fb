//! What an attention of 8-bit floats is asked to compute, checked.

use std::f32::consts::LOG2_E;

use tilewright_attention::Keys;
use tilewright_attention::scaled::{HeadScales, VALUES_TILE};

use crate::ops::HalfElement;
use crate::ops::attention::cache::Cached;
use crate::ops::attention::problem::{MAX_COLUMNS, Options, Size, log_sum_exp, seen};
use crate::ops::frame::{Named, check, of_shape, units};
use crate::ops::scores;
use crate::tensor::{Layout, Places, Untyped};
use crate::{DType, Device, Error, F8E4M3, Result, TensorView, TensorViewMut};

/// The tensors beside Q, K, V and O.
#[derive(Clone, Copy)]
pub(super) struct Others<'v> {
    pub(super) lse: Option<&'v TensorViewMut<'v, f32>>,
    /// Of Q, K and V.
    pub(super) scales: [Option<&'v TensorView<'v, f32>>; 3],
}

/// Q, K and V.
pub(super) type Inputs<'v, 'm> = [&'v TensorView<'m, F8E4M3>; 3];

/// The tensors of a call, in the order of a plan's.
pub(super) fn named<'v, T: HalfElement>(
    [q, k, v]: Inputs<'v, '_>,
    o: &'v TensorViewMut<'_, T>,
    others: Others<'v>,
) -> [Option<Named<'v>>; 8] {
    let [of_q, of_k, of_v] = others.scales;
    let scale = |name, of: Option<&'v TensorView<'v, f32>>| of.map(|of| Named::read(name, of));
    [
        Some(Named::read("q", q)),
        Some(Named::read("k", k)),
        Some(Named::read("v", v)),
        Some(Named::written("o", o)),
        others.lse.map(|lse| Named::written("lse", lse)),
        scale("scale_q", of_q),
        scale("scale_k", of_k),
        scale("scale_v", of_v),
    ]
}

/// An attention of 8-bit floats.
#[derive(Clone, Debug)]
pub(super) struct Problem {
    pub(super) device: Device,
    /// Q, K and V, in pairs of columns.
    pub(super) inputs: [Untyped; 3],
    pub(super) o: Untyped,
    /// With one column; without rows if it is not wanted.
    pub(super) lse: Untyped,
    /// Of the heads of Q, of K and of V.
    pub(super) scales: [HeadScales; 3],
    /// What products are multiplied by beside them, times log2(e).
    pub(super) scale: f32,
    pub(super) size: Size,
    pub(super) keys: Keys,
}

impl Problem {
    pub(super) fn new<T: HalfElement>(
        options: &Options,
        inputs: Inputs<'_, '_>,
        o: &TensorViewMut<'_, T>,
        others: Others<'_>,
    ) -> Result<Self> {
        let device = o.device();
        check(device, named(inputs, o, others).into_iter().flatten())?;
        let [q, k, v] = inputs;
        let size =
            Size::new([q.shape(), k.shape(), v.shape(), o.shape()], &Cached::default(), None, MAX_COLUMNS)?;
        let Size { batch, heads, kv_heads, queries, keys, columns: [d, _], .. } = size;
        let lse = log_sum_exp(others.lse, &o.untyped(), [batch, heads, queries])?;
        let names = ["scale_q", "scale_k", "scale_v"];
        let mut scales = [HeadScales::ONES; 3];
        for (i, heads) in [heads, kv_heads, kv_heads].into_iter().enumerate() {
            if let Some(of) = others.scales[i] {
                scales[i] = of_heads(names[i], of, [batch, heads])?;
            }
        }
        let problem = Problem {
            device: device.clone(),
            inputs: [units("q", q)?, units("k", k)?, units("v", v)?],
            o: o.untyped(),
            lse,
            scales,
            scale: scores::scale(options.scale, d)? * LOG2_E,
            size,
            keys: seen(queries, keys, options)?,
        };
        if problem.value_tiles().is_none() {
            return Err(Error::argument("v", of_shape(v.shape()), "of fewer than 2^39 elements"));
        }
        Ok(problem)
    }

    /// The same at the places of a run.
    pub(super) fn placed(&self, places: &Places) -> Self {
        let mut placed = self.clone();
        for tensor in placed.inputs.iter_mut().chain([&mut placed.o, &mut placed.lse]) {
            *tensor = places.of(tensor);
        }
        for scales in &mut placed.scales {
            scales.address = places.at(scales.address);
        }
        placed
    }

    /// Nothing to store.
    pub(super) fn is_empty(&self) -> bool {
        let Size { batch, heads, queries, .. } = self.size;
        batch == 0 || heads == 0 || queries == 0
    }

    /// Bytes of a line of V's keys as products take it.
    pub(super) fn line(&self) -> usize {
        self.size.keys.next_multiple_of(VALUES_TILE[0] as usize)
    }

    /// Tiles in which V is transposed, if they can be counted.
    pub(super) fn value_tiles(&self) -> Option<u32> {
        let Size { batch, kv_heads, keys, columns: [_, dv], .. } = self.size;
        let [of_keys, of_columns] = VALUES_TILE.map(|n| n as usize);
        let lines = batch.checked_mul(kv_heads)?.checked_mul(dv.div_ceil(of_columns))?;
        let tiles = lines.checked_mul(keys.div_ceil(of_keys))?;
        u32::try_from(tiles).ok().filter(|&tiles| tiles < 1 << 28)
    }

    /// Elements of f32 in which V lies as products take it.
    pub(super) fn workspace_len(&self) -> usize {
        let Size { batch, kv_heads, columns: [_, dv], .. } = self.size;
        batch * kv_heads * dv * (self.line() / size_of::<f32>())
    }

    /// V as products take it, \[batch, KV heads, DV, keys\] in pairs of keys, at the address of the workspace.
    pub(super) fn transposed(&self, workspace: u64) -> Result<Untyped> {
        let Size { batch, kv_heads, columns: [_, dv], .. } = self.size;
        let pairs = self.line() / 2;
        let layout = Layout::contiguous(&[batch, kv_heads, dv, pairs])?;
        Ok(Untyped { address: workspace, dtype: DType::F16, layout })
    }
}

/// Scales of each head of each sequence.
fn of_heads(name: &'static str, scales: &TensorView<'_, f32>, shape: [usize; 2]) -> Result<HeadScales> {
    let stretched = scales.untyped().broadcast(&shape).map_err(|_| {
        let allowed = format!("one that broadcasts to {shape:?}: the batch and its heads");
        Error::argument(name, of_shape(scales.shape()), allowed)
    })?;
    let strides = [0, 1].map(|dim| stretched.layout.strides()[dim] as u64);
    Ok(HeadScales { address: stretched.address, strides })
}
