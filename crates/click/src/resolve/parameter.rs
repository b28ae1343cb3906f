//! Parameters of compound elements.

use super::Resolver;
use crate::ast::Body;
use crate::definition::Definition;
use crate::diagnostic::Diagnostic;
use crate::text::leading_keyword;

/// Most parameters of one compound element.
const MAX_PARAMETERS: usize = 256;

impl Resolver<'_> {
    pub(super) fn formals(&mut self, body: &Body, definition: &mut Definition) {
        let mut in_order = true;
        for formal in &body.formals {
            if definition.formals.len() >= MAX_PARAMETERS {
                self.errors.error(&formal.at, "too many parameters");
                return;
            }
            let formals = &definition.formals;
            if !definition.variable_names.insert(formal.variable.clone()) {
                let message = format!("parameter '${}' multiply defined", formal.variable);
                self.errors.error(&formal.at, message);
                continue;
            }
            let repeated = |(keyword, _): &(String, String)| *keyword == formal.keyword;
            if !formal.keyword.is_empty() && formals.iter().any(repeated) {
                let message =
                    format!("repeated keyword parameter '{}' in compound element", formal.keyword);
                self.errors.error(&formal.at, message);
            }
            if let Some((last, _)) = formals.last()
                && in_order
                && ((formal.keyword.is_empty() && !last.is_empty()) || last == "__REST__")
            {
                in_order = false;
                let error =
                    Diagnostic::error(&formal.at, "compound element parameters out of order");
                let order = "the correct order is '[positional], [keywords], [__REST__]'";
                self.errors.push(error.help(order.to_owned()));
            }
            let pair = (formal.keyword.clone(), formal.variable.clone());
            definition.formals.push(pair);
        }
    }
}

/// Assigns arguments to parameters; `None` if they do not fit.
pub(crate) fn assign_arguments(
    formals: &[(String, String)],
    arguments: &[String],
) -> Option<Vec<String>> {
    let positional = formals.iter().take_while(|(k, _)| k.is_empty()).count();
    let Some(((last, _), _)) = formals.split_last().filter(|((k, _), _)| !k.is_empty()) else {
        return (arguments.len() == formals.len()).then(|| arguments.to_vec());
    };
    let rest = last == "__REST__";
    let named = formals.len() - usize::from(rest);
    let mut values: Vec<Option<String>> = vec![None; formals.len()];
    let mut remaining: Vec<&str> = Vec::new();
    let (mut given, mut any_keyword) = (0, false);
    for argument in arguments {
        if given >= positional {
            let keyword = leading_keyword(argument).and_then(|(word, value)| {
                let index = formals.iter().take(named).position(|(k, _)| k == word)?;
                Some((index, argument.get(value..).unwrap_or_default()))
            });
            if let Some((index, value)) = keyword {
                *values.get_mut(index)? = Some(value.to_owned());
                any_keyword = true;
                continue;
            }
            if any_keyword {
                if !rest {
                    return None;
                }
                remaining.push(argument);
                continue;
            }
        }
        if given < positional {
            *values.get_mut(given)? = Some(argument.clone());
        } else {
            remaining.push(argument);
        }
        given += 1;
    }
    if given > positional && !rest {
        return None;
    }
    if rest {
        *values.last_mut()? = Some(remaining.join(", "));
    }
    values.into_iter().collect()
}
