//! What can be asked of a simulation beside its end.
