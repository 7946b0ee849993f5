//! Every bound of this crate, with its reason.

/// Longest filter text in characters: what Forge documents for its expressions (acceptance A07), and about ten times
/// the longest filter people write by hand.
pub const TEXT_MAX_CHARS: usize = 10_000;

/// Most keys from the root to a value in a filter. Half of [`BODY_DEPTH_MAX`], so that every allowed path can match.
pub const PATH_STEPS_MAX: usize = 64;

/// Most conjunctions after `$or` is expanded: what an index has to hold for one filter.
pub const CONJUNCTIONS_MAX: usize = 1_000;

/// Most clauses (paths with a value list) in one conjunction; a candidate is verified clause by clause.
pub const CLAUSES_MAX: usize = 64;

/// Most values and operators in all lists of a filter. Longer lists belong in the producer's event type.
pub const VALUES_MAX: usize = 1_000;

/// Deepest nesting of an expression or of a list of CloudEvents filters. Evaluation goes as deep, on the stack.
pub const EXPRESSION_DEPTH_MAX: usize = 64;

/// Bounds of one filter text, for callers that want to allow less than the constants of this module.
///
/// A bound above its constant counts as the constant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Characters of the text; at most [`TEXT_MAX_CHARS`].
    pub text_chars: usize,
    /// Keys from the root to a value; at most [`PATH_STEPS_MAX`].
    pub path_steps: usize,
    /// Alternatives that `$or` may stand for; at most [`CONJUNCTIONS_MAX`].
    pub conjunctions: usize,
    /// Fields that must match together; at most [`CLAUSES_MAX`].
    pub clauses: usize,
    /// Values and operators in all; at most [`VALUES_MAX`]. In an expression: literals, attributes and paths.
    pub values: usize,
    /// Nesting of an expression; at most [`EXPRESSION_DEPTH_MAX`].
    pub depth: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            text_chars: TEXT_MAX_CHARS,
            path_steps: PATH_STEPS_MAX,
            conjunctions: CONJUNCTIONS_MAX,
            clauses: CLAUSES_MAX,
            values: VALUES_MAX,
            depth: EXPRESSION_DEPTH_MAX,
        }
    }
}

impl Limits {
    /// The same, with nothing above the constants: what is kept within them can be evaluated.
    pub(crate) fn clamped(&self) -> Self {
        let most = Self::default();
        Self {
            text_chars: self.text_chars.min(most.text_chars),
            path_steps: self.path_steps.min(most.path_steps),
            conjunctions: self.conjunctions.min(most.conjunctions),
            clauses: self.clauses.min(most.clauses),
            values: self.values.min(most.values),
            depth: self.depth.min(most.depth),
        }
    }
}

/// Clauses of one alternative of an expression that lead to it, at most: more say nothing more.
pub(crate) const LEADING_CLAUSES_MAX: usize = 16;

/// Largest exponent of a number in a filter. Numbers in events may have any: they are ordered correctly all the same.
pub const EXPONENT_MAX: i64 = 1_000_000_000;

/// Steps that one evaluation of one filter may take (acceptance A07). A step is one value looked at, one key looked
/// up, one array element visited, or [`STEP_BYTES`] bytes of a value read by one operator.
pub const STEPS_MAX: u32 = 50_000;

/// Bytes of a value that one operator may read per step, so that long texts cost what they take.
pub const STEP_BYTES: usize = 1_024;

/// Steps for one explanation: it evaluates the filter and then each clause alone, for a person who waits for it.
pub const EXPLAIN_STEPS_MAX: u32 = 10 * STEPS_MAX;

/// Most alternatives (conjunctions) an explanation lists; more cannot be read.
pub const EXPLAINED_ALTERNATIVES_MAX: usize = 32;

/// Most clauses an explanation shows, of all alternatives together.
pub const EXPLAINED_CLAUSES_MAX: usize = 200;

/// Deepest nesting that an explanation shows: twice as many levels of JSON, half of what common readers take.
pub const EXPLAINED_DEPTH_MAX: usize = 24;

/// Most paths of one clause that an explanation shows the values of.
pub const EXPLAINED_PATHS_MAX: usize = 4;

/// Most values of a path an explanation shows.
pub const EXPLAINED_VALUES_MAX: usize = 10;

/// Longest text of a shown value, in characters.
pub const EXPLAINED_VALUE_CHARS_MAX: usize = 200;

/// Deepest nesting of arrays and objects in a body. Deeper bodies are not read.
pub const BODY_DEPTH_MAX: usize = 128;

/// Longest body that is read, in bytes. Far above what ingest accepts; keeps the parsed view's offsets in 32 bits.
pub const BODY_MAX_BYTES: usize = 64 * 1024 * 1024;

/// Objects with more members than this get a sorted index of their keys, so that a lookup never scans thousands.
pub(crate) const UNINDEXED_MEMBERS_MAX: u32 = 16;

/// Most different paths that the filters of one index use. A path costs memory in every reader's view of the names.
pub const INDEX_PATHS_MAX: usize = 16_384;

/// Most filters in one index: their numbers and places stay in 32 bits with room to spare.
pub const INDEX_FILTERS_MAX: usize = 100_000_000;

/// Filters that were added last are kept in a small segment which every change builds anew, up to this many.
pub const INDEX_FRESH_MAX: usize = 256;

/// Segments before a change merges two of them itself, because nobody did it in the background.
pub const INDEX_SEGMENTS_MAX: usize = 16;

/// Conjunctions behind one value before they are told apart by a second value.
pub const INDEX_POSTING_MAX: usize = 64;

/// Values of an event that are remembered to rule out candidates by a second value. With more, nothing is ruled out so.
pub const INDEX_VALUES_MAX: usize = 256;

/// Steps that all filters together may take on one event. Those that are not reached get no verdict.
pub const EVENT_STEPS_MAX: u64 = 20_000_000;

/// Conjunctions for which literals are looked for in the raw bytes before anything else is done with them.
pub const PREFILTER_CONJUNCTIONS_MAX: usize = 8;

/// Shortest literal that is looked for: shorter ones are in most bodies.
pub const PREFILTER_LITERAL_MIN_BYTES: usize = 3;

/// Candidates that are noted for one event, repeated ones too, before every filter is taken for one.
pub const CANDIDATES_NOTED_MAX: u64 = 4_000_000;
