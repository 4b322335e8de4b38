//! A recipe of vLLM: a YAML with a model, its arguments and those of its variants.
//!
//! Source: github.com/vllm-project/recipes, `models/` and CONTRIBUTING.md. Its site writes the command: the default
//! variant, the features that are switched on, and a strategy, by the GPUs that there are.

use super::draft::Draft;
use super::files::is_yaml;
use super::options::Beside;
use super::serving;
use crate::base::error::Result;
use crate::base::yaml::scalars;

/// Arguments that spread a model over GPUs.
const SPREADS: [&str; 4] = ["tensor-parallel-size", "-tp", "data-parallel-size", "-dp"];

/// Whether a text is such a file.
pub(super) fn is(text: &str, file: &str) -> bool {
    let keys = ["\nmodel:", "  model_id:", "\nvariants:"];
    is_yaml(file) && keys.iter().all(|key| text.contains(key))
}

/// Reads the default variant, without features.
///
/// # Errors
/// As of the command that it stands for.
pub(super) fn read(beside: &Beside<'_>) -> Result<Draft> {
    let all = scalars(beside.text);
    let values = |path: &'static str| {
        let is = move |one: &str| one.strip_prefix(path).is_some_and(|rest| !rest.contains('.'));
        all.iter().filter(move |one| is(&one.option())).map(|one| one.text.as_str())
    };
    let own = values("variants.default.model-id").chain(values("model.model-id")).next();
    let args = values("model.base-args.").chain(values("variants.default.extra-args."));
    let args: Vec<&str> = args.collect();
    let command = format!("vllm serve {} {}", own.unwrap_or_default(), args.join(" "));
    let file = format!("{}: vllm serve", beside.file);
    let mut draft = serving::read(&Beside { text: &command, file: &file, ..*beside })?;
    if !SPREADS.iter().any(|key| command.contains(key)) {
        draft.asked.push("tp (the GPUs of the strategy)".to_owned());
    }
    draft.inferred.push("the recipe's default variant, without features".to_owned());
    Ok(draft)
}
