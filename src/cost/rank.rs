//! All algorithms of a collective, fastest first.

use crate::base::error::{Error, Result};
use crate::base::order::rising;
use crate::base::quantity::{Bytes, Seconds, Volume};
use crate::cost::price::{OnLinks, Prepared, Price, applies, price_elements};
use crate::machine::fabric::Fabric;
use crate::model::algorithm::{Algorithm, Library, Named, Reason, Registry};
use crate::model::formula::{Form, Shape};

/// An algorithm with all values inserted except M.
#[derive(Clone, Copy)]
pub struct Candidate {
    /// The algorithm.
    pub algorithm: &'static dyn Algorithm,
    /// Which of its costs is used.
    pub form: Form,
    /// That cost on the machine.
    pub prepared: Prepared,
}

/// An algorithm with its price.
#[derive(Clone, Copy)]
pub struct Ranked {
    /// The algorithm.
    pub algorithm: &'static dyn Algorithm,
    /// Which of its costs is used.
    pub form: Form,
    /// Its price for the given size.
    pub price: Price,
}

/// An algorithm that does not apply, and the reason.
#[derive(Clone)]
pub struct Refused {
    /// The algorithm.
    pub algorithm: &'static dyn Algorithm,
    /// The reason.
    pub why: Reason,
}

/// Inserts the machine into every algorithm of the collective. Those that need an unknown parameter are refused.
///
/// # Errors
/// Every applicable algorithm needs an unknown parameter, or the machine joins fewer ranks.
pub fn candidates(
    registry: &Registry,
    shape: &Shape,
    fabric: &Fabric,
) -> Result<(Vec<Candidate>, Vec<Refused>)> {
    fabric.depth(shape.ranks)?;
    let mut ready = Vec::with_capacity(32);
    let (mut refused, mut unknown) = (Vec::new(), None);
    let shape = fabric.fill(shape);
    for algorithm in registry.of(shape.collective) {
        if let Err(why) = applies(algorithm, &shape, fabric) {
            refused.push(Refused { algorithm, why });
            continue;
        }
        match Prepared::applicable(algorithm, &shape, fabric) {
            Ok(prepared) => ready.push(Candidate { algorithm, form: Form::Exact, prepared }),
            Err(error) if error.is_unsupported() || error.is_unknown() => {
                refused.push(Refused { algorithm, why: Reason::from(error.what().to_owned()) });
                unknown = unknown.or(Some(error).filter(Error::is_unknown));
            }
            Err(error) => return Err(error),
        }
    }
    match unknown {
        Some(unknown) if ready.is_empty() => Err(unknown),
        _ => Ok((ready, refused)),
    }
}

/// The candidate with the lowest ideal time, against which regret is counted.
#[must_use]
pub fn fastest(ready: &[Candidate], size: Volume) -> Option<(&Candidate, Seconds)> {
    let timed = ready.iter().map(|c| (c, c.prepared.time(size)));
    timed.min_by(|a, b| a.1.0.total_cmp(&b.1.0))
}

impl Candidate {
    /// The algorithm of that name, in the form selected by the name.
    ///
    /// # Errors
    /// An unknown name, an algorithm that does not apply, an unknown parameter.
    pub fn named(registry: &Registry, name: &str, shape: &Shape, fabric: &Fabric) -> Result<Self> {
        let Named { algorithm, form } = registry.find_for(&fabric.fill(shape), name)?;
        let prepared = Prepared::stated(algorithm, form, shape, fabric)?;
        Ok(Self { algorithm, form, prepared })
    }
}

/// Keeps the algorithms that `library` ships, or any library if none is named; if it ships none that
/// applies, all are kept.
///
/// # Errors
/// An unknown parameter that all that it ships need: no other algorithm stands in for those.
pub(crate) fn keep_shipped(
    registry: &Registry,
    ready: &mut Vec<Candidate>,
    library: Option<Library>,
    shape: &Shape,
    fabric: &Fabric,
) -> Result<()> {
    let shipped = |algorithm: &dyn Algorithm| algorithm.is_shipped(library, shape);
    if ready.iter().any(|c| shipped(c.algorithm)) {
        ready.retain(|c| shipped(c.algorithm));
        return Ok(());
    }
    for algorithm in registry.of(shape.collective).filter(|a| shipped(*a)) {
        if let Err(error) = Prepared::new(algorithm, shape, fabric)
            && error.is_unknown()
        {
            return Err(error);
        }
    }
    Ok(())
}

/// Prices the candidates for `size` bytes, the fastest first; ties keep the registry's order.
#[must_use]
pub fn rank(candidates: &[Candidate], size: Volume) -> Vec<Ranked> {
    let mut ranked: Vec<Ranked> = candidates
        .iter()
        .map(|c| Ranked { algorithm: c.algorithm, form: c.form, price: c.prepared.price(size) })
        .collect();
    sort(&mut ranked);
    ranked
}

/// The same with messages of whole elements of `each` bytes; sizes that do not divide evenly round
/// up.
///
/// # Errors
/// A size that is not a whole number of elements.
pub fn rank_elements(
    candidates: &[Candidate],
    shape: &Shape,
    fabric: &Fabric,
    size: Bytes,
    each: Bytes,
) -> Result<Vec<Ranked>> {
    check_elements(size, each)?;
    let mut ranked = Vec::with_capacity(candidates.len());
    for c in candidates {
        let price = price_elements(c.algorithm, shape, fabric, size.0 / each.0, each)?;
        ranked.push(Ranked { algorithm: c.algorithm, form: c.form, price });
    }
    sort(&mut ranked);
    Ok(ranked)
}

/// Refuses a size that is not a whole number of elements.
pub(crate) fn check_elements(size: Bytes, each: Bytes) -> Result<()> {
    if size.0.is_multiple_of(each.0) {
        return Ok(());
    }
    Err(Error::input(format!("{} bytes are not a whole number of elements", size.0))
        .at(format!("elements of {} bytes", each.0))
        .help(format!("use a multiple of {} bytes", each.0)))
}

/// A candidate on measured links.
#[derive(Clone)]
pub struct Contender {
    /// The algorithm.
    pub algorithm: &'static dyn Algorithm,
    /// Which of its costs the ideal price is.
    pub form: Form,
    /// Its time on the machine's links.
    pub links: OnLinks,
}

/// Inserts measured links into candidates for `shape` on `fabric`.
///
/// # Errors
/// Errors of [`candidates`].
pub fn contenders(
    candidates: &[Candidate],
    shape: &Shape,
    fabric: &Fabric,
) -> Result<Vec<Contender>> {
    let on_links = |&Candidate { algorithm, form, prepared }: &Candidate| {
        // A printed formula has no messages.
        let links = match form {
            Form::Exact => OnLinks::beside(prepared, algorithm, shape, fabric)?,
            _ => OnLinks::from(prepared),
        };
        Ok(Contender { algorithm, form, links })
    };
    candidates.iter().map(on_links).collect()
}

fn sort(ranked: &mut [Ranked]) {
    rising(ranked, |a| a.price.total().0);
}
