//! `device_print!` and `device_assert!`: a text as `format!` has it, taken apart.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Error, Expr, Ident, LitStr, Result, Token};

/// A text and its arguments.
struct Message {
    pieces: Vec<Piece>,
    values: Vec<Expr>,
}

/// A part of a text.
#[derive(Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    /// What stands between `%` and the conversion in C, and the conversion, if it is not the type's.
    Value {
        options: String,
        conversion: &'static str,
    },
}

/// What a hole of the text says.
#[derive(Debug, PartialEq, Eq)]
struct Hole {
    /// The variable that it names.
    name: Option<String>,
    options: String,
    conversion: &'static str,
    /// Whether it shows bits.
    bits: bool,
}

/// `TEXT, VALUE, …`
pub fn print(input: TokenStream) -> Result<TokenStream> {
    let message: Message = syn::parse2(input)?;
    let call = message.call(quote!(print));
    Ok(guarded(&call))
}

/// `CONDITION` or `CONDITION, TEXT, VALUE, …`
pub fn assert(input: TokenStream) -> Result<TokenStream> {
    let Assertion { condition, mut message } = syn::parse2(input)?;
    let said = condition.to_token_stream().to_string();
    let separator = if message.pieces.is_empty() { "" } else { ": " };
    message.pieces.insert(0, Piece::Text(format!("assertion failed: {said}{separator}")));
    let call = message.call(quote!(fail));
    Ok(guarded(&quote!({ if !(#condition) { #call } })))
}

/// Code of debug builds, and nothing in others. On the host, which knows nothing of the switch, it is compiled for its types alone.
fn guarded(code: &TokenStream) -> TokenStream {
    // The switch stands inside of what is left out on the host, where rustc would warn of a name that it does not know.
    quote! {{
        #[cfg(target_arch = "nvptx64")]
        let () = {
            #[cfg(tilewright_debug)]
            let () = #code;
        };
        #[cfg(not(target_arch = "nvptx64"))]
        let () = if false {
            #code
        };
    }}
}

struct Assertion {
    condition: Expr,
    message: Message,
}

impl Parse for Assertion {
    fn parse(input: ParseStream) -> Result<Self> {
        let condition = input.parse()?;
        let comma = input.parse::<Option<Token![,]>>()?;
        let message = match comma {
            Some(_) if !input.is_empty() => input.parse()?,
            _ => Message { pieces: Vec::new(), values: Vec::new() },
        };
        Ok(Self { condition, message })
    }
}

impl Parse for Message {
    fn parse(input: ParseStream) -> Result<Self> {
        let text: LitStr =
            input.parse().map_err(|error| Error::new(error.span(), "the text is a literal: `\"sum {}\"`"))?;
        let mut given = Vec::new();
        if input.parse::<Option<Token![,]>>()?.is_some() {
            given.extend(Punctuated::<Expr, Token![,]>::parse_terminated(input)?);
        }
        let count = given.len();
        let mut given = given.into_iter();
        let (mut pieces, mut values) = (Vec::new(), Vec::new());
        let failed = |why: String| Error::new(text.span(), why);
        for part in parts(&text.value()).map_err(failed)? {
            match part {
                Ok(text) => pieces.push(Piece::Text(text)),
                Err(Hole { name, options, conversion, bits }) => {
                    let value: Expr = match name {
                        Some(name) => {
                            let name = syn::parse_str::<Ident>(&name).map_err(|_| {
                                failed(format!(
                                    "`{{{name}}}` is no variable: write `{{}}`, and the value behind the text"
                                ))
                            })?;
                            let name = Ident::new(&name.to_string(), text.span());
                            syn::parse_quote!(#name)
                        }
                        None => given.next().ok_or_else(|| {
                            failed(format!(
                                "the text has more `{{}}` than values, of which there are {count}"
                            ))
                        })?,
                    };
                    let bits = bits.then(|| syn::parse_quote!(::tilewright_device::print::Bits(#value)));
                    values.push(bits.unwrap_or(value));
                    pieces.push(Piece::Value { options, conversion });
                }
            }
        }
        match given.next() {
            Some(left) => Err(Error::new_spanned(left, "the text has no `{}` for this value")),
            None => Ok(Self { pieces, values }),
        }
    }
}

impl Message {
    /// The call of this function with the message.
    fn call(&self, function: TokenStream) -> TokenStream {
        let pieces = self.pieces.iter().map(|piece| match piece {
            Piece::Text(text) => quote!(::tilewright_device::print::Piece::Text(#text)),
            Piece::Value { options, conversion } => {
                quote!(::tilewright_device::print::Piece::Value(#options, #conversion))
            }
        });
        let values = self.values.iter().rev().fold(quote!(()), |rest, value| quote!((#value, #rest)));
        quote! {{
            struct Here;
            impl ::tilewright_device::print::Message for Here {
                const FILE: &'static str = ::core::file!();
                const LINE: u32 = ::core::line!();
                const PIECES: &'static [::tilewright_device::print::Piece] = &[#(#pieces),*];
            }
            ::tilewright_device::print::#function::<Here, _>(#values)
        }}
    }
}

/// The text's parts, holes as errors.
fn parts(text: &str) -> std::result::Result<Vec<std::result::Result<String, Hole>>, String> {
    let mut parts = Vec::new();
    let mut plain = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        let (before, after) = rest.split_at(at);
        plain.push_str(before);
        if after.starts_with("{{") || after.starts_with("}}") {
            plain.push_str(&after[..1]);
            rest = &after[2..];
            continue;
        }
        let end = after.find('}').filter(|_| after.starts_with('{'));
        let end = end.ok_or("a brace has no other: write `{{` or `}}` for a brace in the text")?;
        if !plain.is_empty() {
            parts.push(Ok(std::mem::take(&mut plain)));
        }
        parts.push(Err(hole(&after[1..end])?));
        rest = &after[end + 1..];
    }
    plain.push_str(rest);
    if !plain.is_empty() {
        parts.push(Ok(plain));
    }
    Ok(parts)
}

/// What stands between braces.
fn hole(text: &str) -> std::result::Result<Hole, String> {
    let (name, specification) = text.split_once(':').unwrap_or((text, ""));
    let name = Some(name.trim().to_owned()).filter(|name| !name.is_empty());
    let Specification { plus, alternate, zero, width, precision, kind } =
        Specification::of(specification.trim_end()).ok_or_else(|| {
            format!(
                "`{{{text}}}` is not known to kernels: behind the colon they have `+`, `#`, `0`, a width, `.` and a precision, and the kind, in \
                 this order. They pad with spaces and zeros alone: `{{:8.3}}`, `{{:#010x}}`"
            )
        })?;
    let (conversion, bits) = match (kind, precision) {
        ("" | "?", Some(_)) => ("f", false),
        ("" | "?", None) => ("", false),
        ("x", _) => ("llx", true),
        ("X", _) => ("llX", true),
        ("o", _) => ("llo", true),
        ("e", _) => ("e", false),
        ("E", _) => ("E", false),
        _ => {
            return Err(format!(
                "`{{{text}}}` is not known to kernels: they have `{{}}`, `{{:x}}`, `{{:X}}`, `{{:o}}`, `{{:e}}`, `{{:E}}`"
            ));
        }
    };
    // As for `format!`, `#` is of digits that are bits, and a precision of numbers that are not.
    let flag = |set: bool, flag| if set { flag } else { "" };
    let precision = precision.filter(|_| !bits).map(|digits| format!(".{digits}")).unwrap_or_default();
    let options =
        [flag(plus, "+"), flag(alternate && bits, "#"), flag(zero, "0"), width, &precision].concat();
    Ok(Hole { name, options, conversion, bits })
}

/// What stands behind a colon, as far as kernels have what `format!` has.
struct Specification<'a> {
    plus: bool,
    alternate: bool,
    zero: bool,
    width: &'a str,
    precision: Option<&'a str>,
    kind: &'a str,
}

impl<'a> Specification<'a> {
    /// `[+|-] [#] [0] [WIDTH] [. PRECISION] [KIND]`; a minus says nothing there.
    fn of(text: &'a str) -> Option<Self> {
        let (plus, rest) = flag(text, '+');
        let rest = if plus { rest } else { flag(rest, '-').1 };
        let (alternate, rest) = flag(rest, '#');
        let (zero, rest) = flag(rest, '0');
        let (width, rest) = number(rest)?;
        let (precision, kind) = match rest.strip_prefix('.') {
            Some(rest) => {
                let (digits, kind) = number(rest)?;
                (Some(digits).filter(|digits| !digits.is_empty()), kind)
            }
            None => (None, rest),
        };
        let whole = rest.starts_with('.') == precision.is_some();
        let known = kind.chars().all(|letter| letter.is_ascii_alphabetic() || letter == '?');
        (whole && known).then_some(Self { plus, alternate, zero, width, precision, kind })
    }
}

/// Whether the text begins with this flag, and what follows.
fn flag(text: &str, flag: char) -> (bool, &str) {
    text.strip_prefix(flag).map_or((false, text), |rest| (true, rest))
}

/// The digits that the text begins with, and what follows; `None` for a number that `format!` does not take.
fn number(text: &str) -> Option<(&str, &str)> {
    let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    (digits.is_empty() || digits.parse::<u16>().is_ok()).then_some((digits, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_taken_apart() {
        let hole = |name: Option<&str>, options: &str, conversion, bits| {
            Err(Hole { name: name.map(str::to_owned), options: options.to_owned(), conversion, bits })
        };
        let text = |text: &str| Ok(text.to_owned());
        let expected =
            vec![text("a "), hole(None, "", "", false), text(" {b} "), hole(Some("c"), "8.3", "f", false)];
        assert_eq!(parts("a {} {{b}} {c:8.3}").unwrap(), expected);
        assert_eq!(parts("{x:#010x}").unwrap(), [hole(Some("x"), "#010", "llx", true)]);
        assert_eq!(parts("").unwrap(), []);
    }

    #[test]
    fn options_are_those_of_format() {
        let taken = |text: &str| match parts(text).unwrap().as_slice() {
            [Err(Hole { options, conversion, .. })] => format!("{options}{conversion}"),
            other => panic!("{other:?}"),
        };
        let cases = [
            ("{:+}", "+"),
            ("{:+08.3}", "+08.3f"),
            ("{:-8}", "8"),
            ("{:#010x}", "#010llx"),
            ("{:#8}", "8"),
            ("{:8.3x}", "8llx"),
            ("{:0}", "0"),
            ("{:.0}", ".0f"),
            ("{:.2e}", ".2e"),
            ("{x:5 }", "5"),
        ];
        for (text, expected) in cases {
            assert_eq!(taken(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_not_known_is_said() {
        for text in [
            "{:>8}", "{:8+}", "{:0+8}", "{:++}", "{:#+}", "{:8.}", "{:.}", "{:1.2.3}", "{:8#x}", "{:70000}",
            "{:w$}", "{:.*}", "{:5 x}",
        ] {
            let error = parts(text).unwrap_err();
            assert!(
                error.contains(&format!("`{text}`")) && error.contains("pad with spaces and zeros alone"),
                "{error}"
            );
        }
        assert!(parts("{:b}").unwrap_err().contains("`{:b}` is not known"));
        assert!(parts("a { b").unwrap_err().contains("write `{{`"));
        let error = |input: TokenStream| print(input).unwrap_err().to_string();
        assert_eq!(error(quote!("{} {}", 1)), "the text has more `{}` than values, of which there are 1");
        assert_eq!(error(quote!("a", 1)), "the text has no `{}` for this value");
        assert!(error(quote!("{0}")).contains("`{0}` is no variable"));
        assert!(error(quote!(text)).contains("the text is a literal"));
    }
}
