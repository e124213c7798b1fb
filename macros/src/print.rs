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
    let options = specification.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == '?');
    let kind = &specification[options.len()..];
    if !options.chars().all(|c| c.is_ascii_digit() || "+-#.".contains(c)) {
        return Err(format!(
            "`{{{text}}}` is not known to kernels, which pad with spaces and zeros alone: `{{:8.3}}`, `{{:08x}}`"
        ));
    }
    let (conversion, bits) = match kind {
        "" | "?" if options.contains('.') => ("f", false),
        "" | "?" => ("", false),
        "x" => ("llx", true),
        "X" => ("llX", true),
        "o" => ("llo", true),
        "e" => ("e", false),
        "E" => ("E", false),
        _ => {
            return Err(format!(
                "`{{{text}}}` is not known to kernels: they have `{{}}`, `{{:x}}`, `{{:X}}`, `{{:o}}`, `{{:e}}`"
            ));
        }
    };
    let name = Some(name.trim().to_owned()).filter(|name| !name.is_empty());
    Ok(Hole { name, options: options.to_owned(), conversion, bits })
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
    fn what_is_not_known_is_said() {
        assert!(parts("{:>8}").unwrap_err().contains("pad with spaces and zeros alone"));
        assert!(parts("{:b}").unwrap_err().contains("`{:b}` is not known"));
        assert!(parts("a { b").unwrap_err().contains("write `{{`"));
        let error = |input: TokenStream| print(input).unwrap_err().to_string();
        assert_eq!(error(quote!("{} {}", 1)), "the text has more `{}` than values, of which there are 1");
        assert_eq!(error(quote!("a", 1)), "the text has no `{}` for this value");
        assert!(error(quote!("{0}")).contains("`{0}` is no variable"));
        assert!(error(quote!(text)).contains("the text is a literal"));
    }
}
