//! What the macros refuse, and the shape of what they make.

use proc_macro2::TokenStream;
use quote::quote;

use crate::{kernel, list};

/// The message that the user sees.
fn refusal(options: TokenStream, item: TokenStream) -> String {
    kernel::expand(options, item).expect_err("should be refused").to_string()
}

fn expanded(options: TokenStream, item: TokenStream) -> syn::File {
    syn::parse2(kernel::expand(options, item).expect("should expand")).expect("should parse")
}

fn expanded_text(options: TokenStream, item: TokenStream) -> String {
    let file = expanded(options, item);
    quote!(#file).to_string()
}

fn instances(input: TokenStream) -> String {
    list::expand(input).expect("should expand").to_string()
}

#[test]
fn options_are_checked() {
    let item = quote!(
        fn k() {}
    );
    let refused = |options| refusal(options, item.clone());
    assert!(refused(quote!()).contains("say how many threads"));
    assert!(refused(quote!(thread = 1)).contains("`thread` is not an option of kernel: program, threads"));
    assert!(refused(quote!(threads)).contains("give the option a value: `threads = …`"));
    assert!(refused(quote!(threads = 1, threads = 2)).contains("`threads` is given twice"));
    assert!(refused(quote!(program = P, threads = 2)).contains("leave one of the two out"));
    assert!(kernel::expand(quote!(threads = 64, shared = { 4 * 8 },), item).is_ok());
}

#[test]
fn functions_are_checked() {
    let refused = |item| refusal(quote!(threads = 1), item);
    assert!(
        refused(quote!(
            struct K;
        ))
        .contains("#[kernel] goes on a function")
    );
    assert!(
        refused(quote!(
            async fn k() {}
        ))
        .contains("cannot be async")
    );
    assert!(
        refused(quote!(
            const fn k() {}
        ))
        .contains("cannot be const")
    );
    assert!(
        refused(quote!(
            extern "C" fn k() {}
        ))
        .contains("leave `extern` out")
    );
    assert!(
        refused(quote!(
            fn k() -> u32 {
                1
            }
        ))
        .contains("a kernel returns nothing")
    );
    assert!(
        refused(quote!(
            fn k<'a>(x: X<'a>) {}
        ))
        .contains("no lifetime parameters")
    );
    assert!(
        refused(quote!(
            fn k(self) {}
        ))
        .contains("a kernel is a free function")
    );
    assert!(
        refused(quote!(
            fn k((a, b): (u32, u32)) {}
        ))
        .contains("give the argument a name")
    );
    assert!(
        refused(quote!(
            fn k(x: &u32) {}
        ))
        .contains("takes no references")
    );
    assert!(
        refused(quote!(
            fn k(x: impl Copy) {}
        ))
        .contains("use a generic parameter")
    );
}

#[test]
fn a_generic_kernel_has_a_type_and_no_entry() {
    let file = expanded(
        quote!(program = P, shared = N as u32),
        quote!(
            /// Doc.
            pub fn k<P: Program, T, const N: usize>(mut a: T, b: u32)
            where
                T: KernelArg,
            {
            }
        ),
    );
    let text = quote!(#file).to_string();
    assert!(text.contains("pub struct k < P , T , const N : usize >"), "{text}");
    assert!(
        text.contains("const THREADS : u32 = < P as :: tilewright_device :: kernel :: Program > :: THREADS")
    );
    assert!(text.contains("const SHARED_BYTES : u32 = N as u32"));
    assert!(text.contains("k :: < P , T , N > ("));
    assert!(!text.contains("no_mangle"));
    let documented = file.items.iter().filter(|item| quote!(#item).to_string().contains("Doc.")).count();
    assert_eq!(documented, 2, "the function and the type carry the documentation");
}

#[test]
fn the_cta_is_made_by_the_program_and_not_passed() {
    let item = quote!(
        fn k(mut cta: Cta<P>, a: u32) {}
    );
    let file = expanded(quote!(program = P), item.clone());
    let text = quote!(#file).to_string();
    assert!(text.contains(":: tilewright_device :: tile :: Cta :: < P > :: enter ()"), "{text}");
    assert!(text.contains("NAMES : & 'static [& 'static str] = & [\"a\"]"), "{text}");
    assert!(refusal(quote!(threads = 1), item).contains("say which, `#[kernel(program = …)]`"));
    let two = quote!(
        fn k(a: Cta<P>, b: Cta<P>) {}
    );
    assert!(refusal(quote!(program = P), two).contains("a kernel's CTA is one"));
}

#[test]
fn a_plain_kernel_has_an_entry_of_its_name() {
    let text = expanded(
        quote!(threads = 32),
        quote!(
            fn k() {}
        ),
    );
    let text = quote!(#text).to_string();
    assert!(text.contains("const NAME : & 'static str = \"k\""));
    assert!(text.contains("extern \"ptx-kernel\" fn k"));
    assert!(text.contains("_none : u32"), "a kernel without arguments still has a parameter");
}

#[test]
fn names_are_pasted() {
    let text = instances(quote!([gemm_ f16 _ 128 x "256"]: gemm<f16, 128, 256>; plain: gemm<f32, 1, 2>));
    assert!(text.contains("\"gemm_f16_128x256\""), "{text}");
    assert!(text.contains("\"plain\""));
    let error = list::expand(quote!([a - b]: k)).unwrap_err().to_string();
    assert!(error.contains("`-` is neither"), "{error}");
    let error = list::expand(quote!([1 a]: k)).unwrap_err().to_string();
    assert!(error.contains("`1a` is not a name"), "{error}");
}

#[test]
fn prefixes_limit_the_architecture() {
    let text = instances(quote!(sm_90: a: k<1>;));
    assert!(text.contains("tilewright_sm = \"90\"") && text.contains("Sm90a"), "{text}");
    let text = instances(quote!(a: k<1>;));
    assert!(text.contains("any (tilewright_sm = \"80\" , tilewright_sm = \"90\")"), "{text}");
    let text = instances(quote!(sm_90: k<1>;));
    assert!(text.contains("\"sm_90\""), "alone it is a name like any other: {text}");
    let text = instances(quote!(a: ::path::k<1>;));
    assert!(text.contains(":: path :: k"), "{text}");
    let error = list::expand(quote!(sm_70: a: k<1>)).unwrap_err().to_string();
    assert!(error.contains("`sm_70` is not an architecture"), "{error}");
}

#[test]
fn loops_make_rows_and_the_table() {
    let text = instances(quote!(
        /// Doc.
        pub static ALL: Tile;
        let TYPES = [(f16, f32), (bf16, f32)];
        for (T, U) in TYPES, P in [Wide<2, 3>, Tall] {
            sm_90: [k_ T _ U]: k<P, T, U>;
        }
        plain: k<Tall, f32, f32>;
    ));
    for row in ["k < Wide < 2 , 3 > , f16 , f32 >", "k < Tall , bf16 , f32 >", "k < Tall , f32 , f32 >"] {
        assert!(text.contains(&format!("Listed :: of :: < {row} > ()")), "{row}: {text}");
    }
    assert_eq!(text.matches("Listed :: of").count(), 5);
    assert!(
        text.contains("pub static ALL : & [:: tilewright_device :: kernel :: Listed < Tile >]"),
        "{text}"
    );
    let refused = |tokens| list::expand(tokens).unwrap_err().to_string();
    assert!(refused(quote!(for T in [] { a: k<T>; })).contains("a loop over nothing"));
    assert!(refused(quote!(for (T, U) in [(f16)] { a: k<T, U>; })).contains("2 values in parentheses"));
    assert!(refused(quote!(for T in [f16] { a b; })).contains("expected `: KERNEL<…>`"));
}

#[test]
fn parameters_are_signed_with_their_types_and_names() {
    let item = quote!(
        fn k<T>(x: Global<T, 2>, mut y: GlobalMut<T, 2>, n: u32) {}
    );
    let text = expanded_text(quote!(program = P), item.clone());
    assert!(text.contains("type Parameters = (Global < T , 2 > , GlobalMut < T , 2 > , u32 ,)"), "{text}");
    assert!(text.contains("NAMES : & 'static [& 'static str] = & [\"x\" , \"y\" , \"n\"]"), "{text}");
    assert!(text.contains("Copies = < P as :: tilewright_device :: kernel :: Program > :: COPIES"), "{text}");
    assert!(text.contains("SafeKernel for k < T >"), "{text}");
    let text = expanded_text(
        quote!(threads = 1),
        quote!(
            unsafe fn k(address: u64) {}
        ),
    );
    assert!(text.contains("Signature for k") && !text.contains("SafeKernel for"), "{text}");
}

#[test]
fn expectations_are_kept_in_the_words_of_their_author() {
    let item = quote!(
        fn k(x: Global<f32, 2>, y: GlobalMut<f32, 2>, n: u32) {}
    );
    let expects =
        quote!(threads = 1, expects(y.shape() == x.shape(), n < x.shape()[0] && !(x.cols() > C as u32)));
    let text = expanded_text(expects, item.clone());
    assert!(text.contains("\"y.shape() == x.shape()\" , parameters : & [1usize , 0usize]"), "{text}");
    let second = "\"n < x.shape()[0] && !(x.cols() > C as u32)\" , parameters : & [2usize , 0usize]";
    assert!(text.contains(second), "{text}");
    let refused = |options| refusal(options, item.clone());
    assert!(refused(quote!(threads = 1, expects)).contains("give it conditions"));
    assert!(refused(quote!(threads = 1, expects(a.y == 1))).contains("it names none of them"));
}
