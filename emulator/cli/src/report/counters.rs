//! Counters as JSON.

use serde_json::{Map, Value, json};
use tilewright_emulator::{
    Class, Counters, Executed, GlobalCounters, GlobalTraffic, SharedCounters, SharedTraffic, WaitCounters,
    Waits,
};

/// What a run counted.
pub fn counters(counters: &Counters) -> Value {
    let Counters {
        instructions,
        lane_instructions,
        classes,
        tensor_operations,
        contested_stores,
        global,
        shared,
        waits,
        live_stages,
    } = *counters;
    let classes: Map<String, Value> = Class::ALL
        .iter()
        .map(|&class| {
            let Executed { warps, lanes } = classes[class];
            (class.name().to_owned(), json!({ "warps": warps, "lanes": lanes }))
        })
        .collect();
    let GlobalCounters { loads, stores, atomics, copies, bulk_loads, bulk_stores } = global;
    let global = json!({
        "loads": of_global(loads),
        "stores": of_global(stores),
        "atomics": of_global(atomics),
        "copies": of_global(copies),
        "bulk_loads": of_global(bulk_loads),
        "bulk_stores": of_global(bulk_stores),
    });
    let SharedCounters { loads, stores, atomics, ldmatrix, stmatrix, wgmma, copies, bulk_writes, bulk_reads } =
        shared;
    let shared = json!({
        "loads": of_shared(loads),
        "stores": of_shared(stores),
        "atomics": of_shared(atomics),
        "ldmatrix": of_shared(ldmatrix),
        "stmatrix": of_shared(stmatrix),
        "wgmma": of_shared(wgmma),
        "copies": of_shared(copies),
        "bulk_writes": of_shared(bulk_writes),
        "bulk_reads": of_shared(bulk_reads),
    });
    let WaitCounters { barriers, clusters, mbarriers } = waits;
    json!({
        "instructions": instructions,
        "lane_instructions": lane_instructions,
        "classes": classes,
        "tensor_operations": tensor_operations,
        "contested_stores": contested_stores,
        "global": global,
        "shared": shared,
        "waits": {
            "barriers": of_waits(barriers),
            "clusters": of_waits(clusters),
            "mbarriers": of_waits(mbarriers),
        },
        "live_stages": live_stages,
    })
}

fn of_global(GlobalTraffic { requests, bytes, sectors }: GlobalTraffic) -> Value {
    json!({ "requests": requests, "bytes": bytes, "sectors": sectors })
}

fn of_shared(SharedTraffic { requests, bytes, wavefronts, conflicts }: SharedTraffic) -> Value {
    json!({ "requests": requests, "bytes": bytes, "wavefronts": wavefronts, "conflicts": conflicts })
}

fn of_waits(Waits { times, turns }: Waits) -> Value {
    json!({ "times": times, "turns": turns })
}
