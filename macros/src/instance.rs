//! One kernel of a list: its name, its type, its entry point.

use proc_macro2::{Delimiter, Span, TokenStream, TokenTree};
use quote::quote;
use syn::parse::{Parse, ParseStream};
use syn::{Attribute, Error, Ident, Result, Token, Type, bracketed, token};

/// An architecture that an instance is limited to.
#[derive(Clone, Copy)]
pub struct Only {
    /// Its name in `cfg(tilewright_sm = "…")`.
    cfg: &'static str,
    /// Its variant of `Arch`.
    variant: &'static str,
    span: Span,
}

/// An entry point's name.
pub struct Name {
    pub text: String,
    pub span: Span,
}

/// A row of `kernels!`.
pub struct Instance {
    pub attributes: Vec<Attribute>,
    pub only: Option<Only>,
    pub name: Name,
    pub ty: Type,
}

impl Parse for Instance {
    fn parse(input: ParseStream) -> Result<Self> {
        let attributes = input.call(Attribute::parse_outer)?;
        let only = only(input)?;
        let name = input.parse()?;
        if !input.peek(Token![:]) {
            return Err(input.error("expected `: KERNEL<…>` after the entry point's name"));
        }
        input.parse::<Token![:]>()?;
        Ok(Self { attributes, only, name, ty: input.parse()? })
    }
}

/// `sm_80:` or `sm_90:`, if the instance begins so.
fn only(input: ParseStream) -> Result<Option<Only>> {
    let ahead = input.fork();
    let Ok(prefix) = ahead.parse::<Ident>() else { return Ok(None) };
    // A name is followed by a type: `sm_90: sm_90: kernel` and `name: kernel` are told apart by what follows.
    let begins = ahead.parse::<Token![:]>().is_ok() && ahead.parse::<Name>().is_ok() && ahead.peek(Token![:]);
    if !begins || ahead.peek(Token![::]) {
        return Ok(None);
    }
    let span = prefix.span();
    let only = match prefix.to_string().as_str() {
        "sm_80" => Only { cfg: "80", variant: "Sm80", span },
        "sm_90" | "sm_90a" => Only { cfg: "90", variant: "Sm90a", span },
        other => {
            return Err(Error::new(span, format!("`{other}` is not an architecture: sm_80 or sm_90")));
        }
    };
    input.parse::<Ident>()?;
    input.parse::<Token![:]>()?;
    Ok(Some(only))
}

impl Parse for Name {
    fn parse(input: ParseStream) -> Result<Self> {
        let name = if input.peek(token::Bracket) {
            let pieces;
            let bracket = bracketed!(pieces in input);
            let mut text = String::new();
            paste(pieces.parse()?, &mut text)?;
            Self { text, span: bracket.span.join() }
        } else {
            let ident: Ident = input.parse()?;
            Self { text: ident.to_string(), span: ident.span() }
        };
        match syn::parse_str::<Ident>(&name.text) {
            Ok(_) => Ok(name),
            Err(_) => Err(Error::new(name.span, format!("`{}` is not a name for an entry point", name.text))),
        }
    }
}

/// Appends the text of each token.
fn paste(pieces: TokenStream, text: &mut String) -> Result<()> {
    for piece in pieces {
        match piece {
            TokenTree::Ident(ident) => text.push_str(&ident.to_string()),
            TokenTree::Literal(literal) => text.push_str(literal.to_string().trim_matches('"')),
            // What a macro_rules variable stands for.
            TokenTree::Group(group) if group.delimiter() == Delimiter::None => paste(group.stream(), text)?,
            other => {
                let message = format!("names are pasted from identifiers and literals; `{other}` is neither");
                return Err(Error::new(other.span(), message));
            }
        }
    }
    Ok(())
}

impl Instance {
    /// The implementation of `Instance`, and on the device the entry point.
    pub fn expand(&self) -> TokenStream {
        let Self { attributes, only, name, ty } = self;
        let entry = Ident::new(&name.text, name.span);
        let text = &name.text;
        let kernel = quote!(<#ty as ::tilewright_device::kernel::Kernel>);
        let arch = quote!(::tilewright_device::kernel::Arch);
        let (built, agrees) = match only {
            Some(Only { cfg, variant, span }) => {
                let variant = Ident::new(variant, *span);
                let message =
                    format!("the kernel of `{text}` is for another architecture than its prefix says");
                (
                    quote!(tilewright_sm = #cfg),
                    quote!(assert!(matches!(#kernel::ARCH, #arch::#variant), #message);),
                )
            }
            None => (quote!(any(tilewright_sm = "80", tilewright_sm = "90")), quote!()),
        };
        let too_large =
            format!("the arguments of `{text}` take more than the 4096 bytes that a kernel can have");
        quote! {
            #(#attributes)*
            impl ::tilewright_device::kernel::Instance for #ty {
                const NAME: &'static str = #text;
            }

            #(#attributes)*
            #[allow(unexpected_cfgs)]
            const _: () = {
                #agrees
                assert!(::core::mem::size_of::<#kernel::Args>() <= 4096, #too_large);

                // The builder may have been asked for some kernels alone.
                #[cfg(all(target_arch = "nvptx64", #built, any(not(tilewright_some), tilewright_some = #text)))]
                #[unsafe(no_mangle)]
                unsafe extern "ptx-kernel" fn #entry(
                    _args: ::tilewright_device::abi::Blob<{ ::core::mem::size_of::<#kernel::Args>() / 16 }>,
                ) {
                    const BUILT: #arch = if cfg!(tilewright_sm = "90") { #arch::Sm90a } else { #arch::Sm80 };
                    if #kernel::ARCH as u32 == BUILT as u32 {
                        // SAFETY: this is the entry point, at its start; its one parameter is the argument block.
                        unsafe {
                            ::tilewright_device::arch::declare::declare::<
                                { #kernel::THREADS },
                                { #kernel::MIN_CTAS },
                                { #kernel::CLUSTER[0] },
                                { #kernel::CLUSTER[1] },
                                { #kernel::CLUSTER[2] },
                                { #kernel::SHARED_BYTES },
                                { #kernel::LOCAL },
                            >();
                            #kernel::run(::tilewright_device::param_address!(#entry).cast())
                        }
                    } else {
                        // The builder drops the entry, and says so if no architecture of the build has it.
                        // SAFETY: a comment.
                        unsafe {
                            match #kernel::ARCH {
                                #arch::Sm80 => ::core::arch::asm!("// tilewright.other sm_80"),
                                #arch::Sm90a => ::core::arch::asm!("// tilewright.other sm_90a"),
                            }
                        }
                    }
                }
            };
        }
    }
}
