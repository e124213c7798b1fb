//! Commands that cannot be done say what is wrong with them, and do nothing else.

use crate::command::{command, corpus, file, kernel};

#[test]
fn what_cannot_be_done_is_named() {
    let (k, reduce) = (kernel("usage", ""), corpus("cuda/reduce.90.ptx"));
    let unknown = kernel("unknown", "frobnicate.b32 %r1;");
    let short = file("short.bin", &[0; 5]);
    for (words, says) in [
        ("", "Usage: tilewright-emulator"),
        ("run", "<FILE>"),
        ("run #k --block 32 --arg zeros:u32:1 --frob", "--frob"),
        ("run #k --arg zeros:u32:1", "--block <X[,Y,Z]>"),
        (
            "run #k --block 0 --arg zeros:u32:1",
            "'0' for '--block <X[,Y,Z]>': it must be one to three numbers from 1",
        ),
        ("run #k --block 32 --grid 1,2,3,4 --arg zeros:u32:1", "'1,2,3,4' for '--grid"),
        ("run #k --block 32 --cluster x --arg zeros:u32:1", "'x' for '--cluster"),
        ("run #k --block 32 --shared -1 --arg zeros:u32:1", "'-1'"),
        ("run #k --block 32 --arch sm_70 --arg zeros:u32:1", "[possible values: sm_80, sm_90a]"),
        ("run #k --block 32 --limits time=soon --arg zeros:u32:1", "`time` was `soon`"),
        (
            "run #k --block 32 --seeds 3 --arg zeros:u32:1",
            "--seeds was `3`; it must be two numbers as `0..8`",
        ),
        ("run #k --block 32 --seeds 3..3 --arg zeros:u32:1", "--seeds was `3..3`"),
        ("run #k --block 32 --seeds 0..3 --schedule 1 --arg zeros:u32:1", "cannot be used with"),
        ("run #k --block 32", "--arg was given 0 times; the kernel `k` takes 1: `out` (8 bytes)"),
        (
            "run #k --block 32 --arg i32:1",
            "argument 0, `i32:1`: it has 4 bytes; it must have those of `out` (8 bytes)",
        ),
        (
            "run #k --block 32 --arg out:1",
            "argument 0, `out:1`: the kind was `out`; it must be one of TYPE:VALUE",
        ),
        ("run #k --block 32 --arg zeros:f32:99999999999999", "no more than 17179869184 bytes"),
        ("run #k --block 32 --limits memory=1KiB --arg zeros:f32:1000", "no more than 1024 bytes"),
        ("run #k --block 32 --arg file:f32:#short", "it must be a multiple of 4, the bytes of f32"),
        ("run #k --block 32 --arg file:/no/such/file", "/no/such/file: "),
        ("run #k --block 32 --arg x=zeros:u32:1 --arg x=zeros:u32:1", "the name of argument 1 was `x`"),
        (
            "run #k --block 32 --arg x=zeros:u32:1 --out y=y.npy",
            "--out was `y=y.npy`: there is no buffer `y`; there are: x",
        ),
        ("run #k --block 32 --arg x=zeros:u32:1 --out x", "--out was `x`; it must be NAME=PATH"),
        ("run #k --block 32 --arg x=zeros:u32:1 --out x=/no/such/folder/x", "--out: /no/such/folder/x: "),
        (
            "run #k --block 32 --arg x=zeros:u8:4 --expect x=#short",
            "short.bin was `of shape [5]`; it must be of 4 elements",
        ),
        ("run #k --block 32 --arg x=zeros:u8:5 --expect x=#short:-1", "a tolerance of --expect was `-1`"),
        (
            "run #k --block 32 --kernel z --arg zeros:u32:1",
            "--kernel was `z`; it must be one of the kernels of",
        ),
        ("run #reduce --block 32", "--kernel must say which kernel of"),
        ("run #unknown --block 32 --arg zeros:u32:1", "unknown.ptx: PTX line 15: "),
        ("run #k --block 32 --arg tensormap:y:8", "there is no buffer `y`, nor any other"),
        (
            "run #k --block 32 --arg zeros:u8:1 --buffer zeros:u8:1",
            "--buffer was `zeros:u8:1`; it must be NAME= and a buffer",
        ),
        ("run #k --block 32 --arg zeros:u8:1 --buffer x=i32:1", "--buffer was `x=i32:1`"),
        ("run /no/such/file.ptx --block 32", "/no/such/file.ptx: "),
        ("list /no/such/file.ptx", "/no/such/file.ptx: "),
    ] {
        let words = words
            .replace("#k", &k)
            .replace("#reduce", &reduce)
            .replace("#unknown", &unknown)
            .replace("#short", &short);
        let done = command(&words);
        assert_eq!(done.code, 2, "{words}: {}{}", done.out, done.error);
        assert_eq!(done.out, "", "{words}");
        assert!(done.error.contains(says), "{words}: {}", done.error);
    }
}

#[test]
fn help_says_what_arguments_there_are() {
    let done = command("run --help");
    assert_eq!(done.code, 0);
    for word in ["random:TYPE:COUNT[:SEED]", "--expect <NAME=PATH[:RTOL[:ATOL]]>", "Exit codes: 0"] {
        assert!(done.out.contains(word), "{word}: {}", done.out);
    }
}
