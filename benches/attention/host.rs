//! What a call costs the host.

use tilewright::ops::Attention;
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
    if let Some(peer) = peer {
        for name in peer.prepare(&CASE, 1)? {
            line(&format!("{name} from Python"), peer.host_us(&name)?);
        }
    }
    Ok(())
}
