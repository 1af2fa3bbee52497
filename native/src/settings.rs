//! What a scheme says, as the native core reads it.

/// What is done with addresses, numbers and so on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Treat {
    /// They stay.
    #[default]
    Keep,
    /// They are dropped.
    Drop,
    /// Each becomes a token for its kind.
    Token,
}

/// Optional steps of normalising, each with the name that it has in `scheme.Normalisation`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "each is a step, taken or not")]
#[expect(missing_docs, reason = "the scheme has them")]
pub struct Normalisation {
    pub invisible: bool,
    pub tags: bool,
    pub entities: bool,
    pub urls: Treat,
    pub emails: Treat,
    pub users: Treat,
    pub numbers: Treat,
    pub emoji: Treat,
    pub join_numbers: bool,
    pub rejoin: bool,
    pub simplify: bool,
    pub unspace: bool,
    pub repeats: bool,
    pub lookalikes: bool,
}
