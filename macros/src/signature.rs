//! `Signature` and `SafeKernel` of a kernel, and the option `expects`.

use proc_macro2::{Delimiter, Spacing, Span, TokenStream, TokenTree};
use quote::quote;
use syn::{Error, Expr, Ident, ItemFn, Result, Safety, Type};

use crate::options::Options;

/// The implementations; `arguments` are the parameters that the host passes, `pad` what the block has if they are none.
pub fn expand(
    function: &ItemFn,
    options: &Options,
    arguments: &[(Ident, Type)],
    args_name: &Ident,
    pad: &TokenStream,
) -> Result<TokenStream> {
    let (name, generics) = (&function.sig.ident, &function.sig.generics);
    let (impl_generics, type_generics, where_clause) = generics.split_for_impl();
    let (fields, types): (Vec<_>, Vec<_>) = arguments.iter().map(|(field, ty)| (field, ty)).unzip();
    let names = fields.iter().map(ToString::to_string);
    let indices = (0..fields.len()).map(syn::Index::from);
    let signature = quote!(::tilewright_device::signature);
    let copies = match &options.program {
        Some(program) => quote!(<#program as ::tilewright_device::kernel::Program>::COPIES),
        None => quote!(::tilewright_device::kernel::Copies::Elements),
    };
    // Whatever the parameters are called.
    let (args, abis) = (Ident::new("args", Span::mixed_site()), Ident::new("abis", Span::mixed_site()));
    let unmet = options
        .expects
        .iter()
        .map(|condition| unmet(condition, &fields, &args, &signature))
        .collect::<Result<Vec<_>>>()?;
    // An unsafe function's kernel is not safe to launch either.
    let safe = (!matches!(function.sig.safety, Safety::Unsafe(_))).then(|| {
        quote! {
            // SAFETY: the function is safe.
            unsafe impl #impl_generics #signature::SafeKernel for #name #type_generics #where_clause {}
        }
    });
    Ok(quote! {
        impl #impl_generics #signature::Signature for #name #type_generics #where_clause {
            type Parameters = (#(#types,)*);
            const NAMES: &'static [&'static str] = &[#(#names),*];
            const COPIES: ::tilewright_device::kernel::Copies = #copies;

            fn pack(#abis: <Self::Parameters as #signature::Parameters>::Abis) -> Self::Args {
                let _ = &#abis;
                #args_name { #(#fields: #abis.#indices,)* #pad }
            }

            fn unmet(
                #args: &Self::Args,
            ) -> ::core::option::Option<&'static #signature::Expectation> {
                let _ = #args;
                #(#unmet)*
                ::core::option::Option::None
            }
        }

        #safe
    })
}

/// Returns the expectation if the arguments do not meet it.
fn unmet(condition: &Expr, fields: &[&Ident], args: &Ident, signature: &TokenStream) -> Result<TokenStream> {
    let tokens = quote!(#condition);
    let mut about = Vec::new();
    mentioned(tokens.clone(), fields, &mut about);
    if about.is_empty() {
        let message = "expects a condition on the kernel's parameters: it names none of them";
        return Err(Error::new_spanned(condition, message));
    }
    let mut text = String::new();
    write(tokens, &mut text);
    let named = about.iter().map(|&i| fields[i]);
    Ok(quote! {
        {
            #(let #named = #args.#named;)*
            let holds: bool = #condition;
            if !holds {
                return ::core::option::Option::Some(&#signature::Expectation {
                    text: #text,
                    parameters: &[#(#about),*],
                });
            }
        }
    })
}

/// The parameters that the tokens name, each once.
fn mentioned(tokens: TokenStream, fields: &[&Ident], about: &mut Vec<usize>) {
    let mut field_or_method = false;
    for token in tokens {
        match &token {
            TokenTree::Ident(ident) if !field_or_method => {
                if let Some(i) =
                    fields.iter().position(|field| *field == ident).filter(|i| !about.contains(i))
                {
                    about.push(i);
                }
            }
            TokenTree::Group(group) => mentioned(group.stream(), fields, about),
            _ => {}
        }
        field_or_method = matches!(&token, TokenTree::Punct(punct) if punct.as_char() == '.');
    }
}

/// Appends the tokens as one writes them: spaces around binary operators and behind commas alone.
fn write(tokens: TokenStream, text: &mut String) {
    const TIGHT: [char; 3] = ['.', ':', '?'];
    let mut joint = true;
    for token in tokens {
        match &token {
            TokenTree::Punct(punct) if punct.as_char() == ',' => {
                text.push(',');
                joint = false;
            }
            TokenTree::Punct(punct) => {
                let tight = TIGHT.contains(&punct.as_char());
                if !joint && !tight {
                    text.push(' ');
                }
                text.push(punct.as_char());
                joint = tight || punct.as_char() == '!' || punct.spacing() == Spacing::Joint;
            }
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::None => ("", ""),
                };
                // Behind a name or a group it is a call or an index, behind an operator an operand.
                if !joint && !text.ends_with(|last: char| last.is_alphanumeric() || "_)]".contains(last)) {
                    text.push(' ');
                }
                text.push_str(open);
                write(group.stream(), text);
                text.push_str(close);
                joint = false;
            }
            other => {
                if !joint {
                    text.push(' ');
                }
                text.push_str(&other.to_string());
                joint = false;
            }
        }
    }
}
