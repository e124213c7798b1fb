//! Where tensors and workspaces lie, and for how long.

use super::*;

#[test]
fn outputs_must_lie_apart() {
    let (device, _) = fake::h200();
    let mut views = Views::of(&device, 70, 70, [64, 64]);
    views.o = view_mut(&device, far(2), &[1, 2, 70, 64]);
    let message = "`o` overlaps `v`; what a call writes must lie apart from all else that it uses";
    assert_eq!(views.message(&Attention::new()), message);

    let views = Views::of(&device, 70, 70, [64, 64]);
    for (at, name) in [(0, "q"), (1, "k"), (2, "v"), (3, "o")] {
        let mut lse = view_mut(&device, far(at), &[1, 2, 70]);
        let message = views.message(&Attention::new().lse(&mut lse));
        assert!(message.starts_with(&format!("`lse` overlaps `{name}`; ")), "{message}");
    }
    let mut lse = view_mut(&device, far(4), &[1, 70, 2]);
    let message = "`lse` was of shape [1, 70, 2]; it must be of shape [1, 2, 70]: batch, heads and queries";
    assert_eq!(views.message(&Attention::new().lse(&mut lse)), message);
}

#[test]
fn tensors_of_another_device_are_refused() {
    let ((device, _), (other, _)) = (fake::h200(), fake::device((8, 0)));
    let mut views = Views::of(&device, 70, 70, [64, 64]);
    views.k = view(&other, far(1), &[1, 2, 70, 64]);
    let message = views.message(&Attention::new());
    assert!(message.contains("`k`") && message.contains("fake:0"), "{message}");
}

#[test]
fn workspaces_lie_apart_and_are_large_enough() {
    let (device, _) = fake::h200();
    let stream = Stream::new(&device).unwrap();
    let mut views = Views::of(&device, 3, 3000, [64, 64]);
    let mut run = |at: u64, len: usize| {
        let mut memory = view_mut(&device, far(at), &[len]);
        let mut attention = Attention::new().splits(2).workspace(&mut memory);
        attention.run(&stream, &views.q, &views.k, &views.v, &mut views.o).unwrap_err().to_string()
    };
    for (at, name) in [(0, "q"), (1, "k"), (2, "v"), (3, "o")] {
        let message = run(at, 1 << 16);
        assert!(message.starts_with(&format!("`workspace` overlaps `{name}`; ")), "{message}");
    }
    assert!(run(5, 779).ends_with("it must be contiguous, of 780 elements or more"));
}

#[test]
fn whatever_is_read_lies_apart_from_whatever_is_written() {
    let (device, _) = fake::h200();
    let shapes: [&[usize]; 4] = [&[3, 4, 1, 64], &[9, 2, 16, 64], &[9, 2, 16, 64], &[3, 4, 1, 64]];
    let views = Views::new(&device, shapes);
    for (at, output) in [(3, "o"), (4, "lse"), (5, "workspace")] {
        let (mut lse, mut memory) =
            (view_mut(&device, far(4), &[3, 4, 1]), view_mut(&device, far(5), &[1 << 16]));
        for (table, lengths, name) in [(at, 7, "block_table"), (6, at, "lengths")] {
            let table = view::<i32>(&device, far(table), &[3, 7]);
            let lengths = view::<i32>(&device, far(lengths), &[3]);
            let attention = Attention::new().block_table(&table).lengths(&lengths).splits(2);
            let message = views.message(&attention.lse(&mut lse).workspace(&mut memory));
            assert!(message.starts_with(&format!("`{output}` overlaps `{name}`; ")), "{message}");
        }
    }
    let views = Views::of(&device, 70, 70, [64, 64]);
    for (places, name) in [([3, 6], "query_offsets"), ([6, 3], "key_offsets")] {
        let [queries, keys] = places.map(|at| view::<i32>(&device, far(at), &[3]));
        let message = views.message(&Attention::new().packed(&queries, &keys, 70));
        assert!(message.starts_with(&format!("`o` overlaps `{name}`; ")), "{message}");
    }
    for (places, name) in [([5, 6], "query_offsets"), ([6, 5], "key_offsets")] {
        let [queries, keys] = places.map(|at| view::<i32>(&device, far(at), &[3]));
        let mut memory = view_mut(&device, far(5), &[1 << 16]);
        let message = views.message(&Attention::new().packed(&queries, &keys, 70).workspace(&mut memory));
        assert!(message.starts_with(&format!("`workspace` overlaps `{name}`; ")), "{message}");
    }
}

#[test]
fn an_operator_moves_to_another_device() {
    let ((first, _), (second, _)) = (fake::h200(), fake::h200());
    let mut attention = Attention::new().splits(2);
    for device in [&first, &second, &first] {
        let mut views = Views::of(device, 3, 3000, [64, 64]);
        let before = device.free_memory().unwrap();
        attention.run(&device.default_stream(), &views.q, &views.k, &views.v, &mut views.o).unwrap();
        assert_eq!(before - device.free_memory().unwrap(), 780 * 4);
    }
    // Memory that lies elsewhere does not overlap anything, though its address says so.
    let (other, _) = fake::device((9, 0));
    let mut memory = view_mut(&other, far(0), &[1 << 16]);
    let message = Views::of(&first, 3, 3000, [64, 64]).message(&Attention::new().workspace(&mut memory));
    assert_eq!(message, "`workspace` was on fake:0; it must be on fake:1, the device of this call");
}

#[test]
fn memory_of_the_operators_own_is_in_no_graph() {
    let (device, _) = fake::h200();
    let stream = Stream::new(&device).unwrap();
    let mut views = Views::of(&device, 3, 3000, [64, 64]);
    let mut attention = Attention::new().splits(2);
    let text = "`workspace` was not given; it must be given to a call that is captured: the operator's own memory goes \
                with the operator, and a graph would go on using it";
    for _ in 0..2 {
        let captured =
            stream.capture(|stream| attention.run(stream, &views.q, &views.k, &views.v, &mut views.o));
        assert_eq!(captured.unwrap_err().to_string(), text);
        attention.run(&stream, &views.q, &views.k, &views.v, &mut views.o).unwrap();
    }
}
