//! What a call costs the host.

use tilewright::ops::{Attention, AttentionViews};
use tilewright::{DType, Device, Stream, Tensor, bf16};
use tilewright_support::Result;
use tilewright_support::timing::host_us;

use crate::case::{Case, Kind};
use crate::peer::Peer;

/// A short attention.
const CASE: Case = Case {
    kind: Kind::Prefill,
    dtype: DType::BF16,
    batch: 1,
    heads: 8,
    kv_heads: 8,
    queries: 512,
    keys: 512,
    columns: [128, 128],
    causal: true,
};

/// Prints the host time of calls that queue a short attention.
pub fn costs(device: &Device, peer: Option<&Peer>) -> Result<()> {
    println!("\n| cost | |\n| --- | ---: |");
    let line = |what: &str, us: f64| println!("| host time of {what} | {us:.2} µs |");
    let [q, k, v, o] = CASE.shapes().map(|shape| Tensor::<bf16>::zeros(device, &shape));
    let (q, k, v, mut o) = (q?, k?, v?, o?);
    let (q, k, v, mut o) = (q.view(), k.view(), v.view(), o.view_mut());
    let stream = Stream::new(device)?;
    let attention = || Attention::new().causal();

    let name = attention().plan(&q, &k, &v, &o)?.kernel().name();
    attention().run(&stream, &q, &k, &v, &mut o)?;
    let chosen = host_us(&stream, || attention().run(&stream, &q, &k, &v, &mut o))?;
    line("`ops::Attention::run`", chosen);
    let named = host_us(&stream, || attention().kernel(name).run(&stream, &q, &k, &v, &mut o))?;
    line("`ops::Attention::run` with the kernel named", named);
    let plan = attention().plan(&q, &k, &v, &o)?;
    let mut views = AttentionViews::default();
    let planned = host_us(&stream, || plan.run(&stream, &q, &k, &v, &mut o, &mut views))?;
    line("`ops::AttentionPlan::run`", planned);
    decode(device, &line)?;
    if let Some(peer) = peer {
        for name in peer.prepare(&CASE, 1)? {
            line(&format!("{name} from Python"), peer.host_us(&name)?);
        }
    }
    Ok(())
}

/// Host time of a step of decoding over a paged cache, with keys in parts.
fn decode(device: &Device, line: &impl Fn(&str, f64)) -> Result<()> {
    let shapes: [&[usize]; 4] = [&[1, 32, 1, 128], &[512, 8, 16, 128], &[512, 8, 16, 128], &[1, 32, 1, 128]];
    let [q, k, v, o] = shapes.map(|shape| Tensor::<bf16>::zeros(device, shape));
    let (q, k, v, mut o) = (q?, k?, v?, o?);
    let (q, k, v, mut o) = (q.view(), k.view(), v.view(), o.view_mut());
    let table = Tensor::from_slice(device, &(0..512).collect::<Vec<i32>>(), &[1, 512])?;
    let lengths = Tensor::from_slice(device, &[8000], &[1])?;
    let stream = Stream::new(device)?;
    let attention = || Attention::new().block_table(table.view()).lengths(lengths.view());
    let plan = attention().plan(&q, &k, &v, &o)?;
    let mut memory = Tensor::<f32>::zeros(device, &[plan.workspace_len()])?;
    line(
        "`ops::Attention::plan` of a step",
        host_us(&stream, || attention().plan(&q, &k, &v, &o).map(drop))?,
    );
    {
        let mut workspace = memory.view_mut();
        let mut attention = attention().workspace(&mut workspace);
        let run = host_us(&stream, || attention.run(&stream, &q, &k, &v, &mut o))?;
        line("`ops::Attention::run` of a step, two launches", run);
    }
    let mut views = AttentionViews {
        lengths: Some(lengths.view().into()),
        block_table: Some(table.view().into()),
        workspace: Some(memory.view_mut()),
        ..AttentionViews::default()
    };
    let planned = host_us(&stream, || plan.run(&stream, &q, &k, &v, &mut o, &mut views))?;
    line("`ops::AttentionPlan::run` of a step, two launches", planned);
    Ok(())
}
