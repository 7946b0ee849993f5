//! Why a record cannot be understood.

use thiserror::Error as ThisError;

/// A record that is not what it should be. The record goes to quarantine with its raw bytes; it is never dropped.
#[derive(Debug, Clone, PartialEq, ThisError)]
#[non_exhaustive]
pub enum Error {
    /// Not protobuf.
    #[error("the record is not protobuf: {0}")]
    Protobuf(String),
    /// A field that every version writes is missing or out of its range.
    #[error("field {field} of the record is {problem}")]
    Field {
        /// Name in the `.proto` file.
        field: &'static str,
        /// What is wrong with it.
        problem: String,
    },
}

impl Error {
    #[expect(clippy::needless_pass_by_value, reason = "callers hand over the error they just got")]
    pub(crate) fn field(field: &'static str, problem: impl ToString) -> Self {
        Error::Field { field, problem: problem.to_string() }
    }
}

impl From<prost::DecodeError> for Error {
    fn from(error: prost::DecodeError) -> Self {
        Error::Protobuf(error.to_string())
    }
}

/// 16 bytes of an id, or which field has another length.
pub(crate) fn id16(field: &'static str, bytes: &[u8]) -> Result<[u8; 16], Error> {
    bytes.try_into().map_err(|_| Error::field(field, format!("{} bytes long, expected 16", bytes.len())))
}

/// A 16-bit status, or which field is out of range.
pub(crate) fn status(field: &'static str, value: Option<u32>) -> Result<Option<u16>, Error> {
    value.map(|v| u16::try_from(v).map_err(|_| Error::field(field, "out of range"))).transpose()
}
