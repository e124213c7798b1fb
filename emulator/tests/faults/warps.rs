//! What lanes of a warp exchange, and where they meet for it.

use super::kernel::{guilty, guilty_at, innocent, threads};

/// `%r1` has a value in the first sixteen lanes; `%p1` says which.
const HALF: &str = "setp.lt.u32 %p1, %t, 16;\n@%p1 mov.u32 %r1, 7;\n";
const STORE: &str = "st.global.u32 [%mine], %r2; // here";

#[test]
fn shuffles_pass_on_what_lanes_do_not_have() {
    // All lanes take part, and those that use the result have it from lanes with a value.
    let down = format!("{HALF}shfl.sync.down.b32 %r2, %r1, 8, 31, -1;\nsetp.lt.u32 %p2, %t, 8;\n");
    innocent(&format!("{down}@%p2 {STORE}"), threads(32));
    let words = ["%r2 is used, whose value comes from %r1", "shfl.sync.down.b32 %r2"];
    guilty_at(&format!("{down}{STORE}"), threads(32), 0, 8, &words);
    // What is computed of it is not there either, and a choice makes it whole.
    let sum = format!("{down}add.u32 %r3, %r2, %r1;\n");
    innocent(&format!("{sum}selp.u32 %r2, %r3, 0, %p2;\n{STORE}"), threads(32));
    let words = ["%r2 is used, whose value comes from %r1"];
    guilty_at(&format!("{sum}selp.u32 %r2, %r3, 0, %p1;\n{STORE}"), threads(32), 0, 8, &words);
    // A broadcast of what the first lane alone has: an atomic for a warp.
    let first = format!(
        "setp.eq.u32 %p1, %t, 0;\n@%p1 atom.global.add.u32 %r1, [%out], 32;\nshfl.sync.idx.b32 %r2, %r1, LANE, 31, -1;\n{STORE}"
    );
    innocent(&first.replace("LANE", "0"), threads(32));
    guilty_at(&first.replace("LANE", "1"), threads(32), 0, 0, &["%r1, that nobody had written"]);
    // Which lane it comes from must be known.
    guilty_at(
        &format!("shfl.sync.idx.b32 %r2, %t, %r3, 31, -1;\n{STORE}"),
        threads(32),
        0,
        0,
        &["comes from %r3"],
    );
    guilty_at("shfl.sync.idx.b32 %r2, %t, 0, 31, %r3; // here", threads(32), 0, 0, &["%r3 is used"]);
}

#[test]
fn votes_of_lanes_without_a_value() {
    let body = |vote: &str, store: &str| format!("{HALF}setp.eq.u32 %p3, %r1, 7;\n{vote}\n{store}");
    let any = "vote.sync.any.pred %p2, %p3, -1;\nselp.u32 %r2, 1, 0, %p2;";
    // One that holds decides it; of all, the others matter.
    innocent(&body(any, STORE), threads(32));
    let all = any.replace(".any", ".all");
    guilty_at(&body(&all, STORE), threads(32), 0, 0, &["comes from %r1"]);
    for vote in [
        "vote.sync.ballot.b32 %r2, %p3, -1;",
        "redux.sync.add.u32 %r2, %r1, -1;",
        "match.sync.any.b32 %r2, %r1, -1;",
    ] {
        innocent(&body(vote, ""), threads(32));
        guilty_at(&body(vote, STORE), threads(32), 0, 0, &["comes from %r1"]);
        let half = vote.replace("-1", "0xffff");
        innocent(&body(&format!("@%p1 {half}"), &format!("@%p1 {STORE}")), threads(32));
    }
}

#[test]
fn a_shuffle_from_a_lane_that_is_not_there() {
    // Lanes that have ended.
    let ended = format!(
        "setp.ge.u32 %p1, %t, LEFT;\n@%p1 exit;\nshfl.sync.down.b32 %r2, %t, 4, 31, -1;\nadd.u32 %r2, %r2, 1;\n{STORE}"
    );
    innocent(&ended.replace("LEFT", "32"), threads(32));
    let words = ["%r2 is used, whose value comes from lane 16, that did not take part when PTX line"];
    guilty_at(&ended.replace("LEFT", "16"), threads(32), 0, 12, &words);
    // Lanes that the CTA never had.
    guilty_at(&ended.replace("LEFT", "32"), threads(28), 0, 24, &["comes from lane 28"]);
    // Lanes that the mask does not name.
    let masked = format!(
        "setp.lt.u32 %p1, %t, 16;\n@!%p1 bra END;\nshfl.sync.bfly.b32 %r2, %t, BY, 31, 0xffff;\n{STORE}\nEND:"
    );
    innocent(&masked.replace("BY", "8"), threads(32));
    guilty_at(&masked.replace("BY", "16"), threads(32), 0, 0, &["comes from lane 16", "did not take part"]);
    // It is no fault where nobody uses it, and it is gone with the next value.
    innocent(
        &masked.replace("BY", "16").replace(STORE, "mov.u32 %r2, 1;\nst.global.u32 [%mine], %r2;"),
        threads(32),
    );
}

#[test]
fn lanes_meet_wherever_they_are() {
    let branches = |first: &str, second: &str| {
        format!(
            "setp.lt.u32 %p1, %t, 16;\nsetp.eq.u32 %p3, %t, 3;\n@%p1 bra LOW;\n{first}\nbra MET;\nLOW: {second}\nMET: {STORE}"
        )
    };
    for op in [
        "shfl.sync.idx.b32 %r2, %t, 20, 31, -1;",
        "vote.sync.ballot.b32 %r2, %p3, -1;",
        "redux.sync.add.u32 %r2, %t, -1;",
        "match.sync.any.b32 %r2, %t, -1;",
        "bar.warp.sync -1;\nmov.u32 %r2, 1;",
        "elect.sync %r2|%p4, -1;",
    ] {
        innocent(&branches(op, op), threads(32));
    }
    // Not for another kind of instruction.
    let (up, down) = ("shfl.sync.up.b32 %r2, %t, 1, 0, -1;", "shfl.sync.down.b32 %r2, %t, 1, 31, -1;");
    let words =
        ["deadlock", "for lanes 0xffff0000 of its warp at the same instruction, with the mask 0xffffffff"];
    guilty(&branches(up, down), threads(32), &words);
    // Each half with its own mask.
    let halves = ["0xffff0000", "0xffff"].map(|mask| format!("shfl.sync.idx.b32 %r2, %t, 0, 15, {mask};"));
    let halves = halves.map(|half| half.replace("%t, 0, 15", "%t, 0, 0x100f"));
    innocent(&branches(&halves[0], &halves[1]), threads(32));
}
