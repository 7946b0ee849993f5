//! From a client's error to the code that a tenant may see.

use std::error::Error;
use std::io;

use mailrail_types::ErrorCode;

use crate::dial::DialError;
use crate::pool::Unanswered;

/// The stable code of what went wrong, from the most telling error in the chain.
pub(crate) fn code_of(error: &(dyn Error + 'static)) -> ErrorCode {
    let mut next = Some(error);
    let mut code = ErrorCode::ConnectionReset;
    while let Some(error) = next {
        if let Some(dial) = error.downcast_ref::<DialError>() {
            return dial.code;
        }
        if let Some(Unanswered::Flooded) = error.downcast_ref::<Unanswered>() {
            return ErrorCode::InvalidResponse;
        }
        if let Some(hyper) = error.downcast_ref::<hyper::Error>() {
            if hyper.is_parse() {
                return ErrorCode::InvalidResponse;
            }
            if hyper.is_user() {
                code = ErrorCode::InvalidRequest;
            }
        }
        if let Some(io) = error.downcast_ref::<io::Error>() {
            // TLS 1.3 refuses a client after the handshake: the alert is met while reading the answer.
            if io.get_ref().is_some_and(|inner| inner.is::<rustls::Error>()) {
                return ErrorCode::TlsError;
            }
            // Broken framing of a body: chunk sizes that are none, extensions or trailers without end.
            if matches!(io.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData) {
                return ErrorCode::InvalidResponse;
            }
        }
        next = error.source();
    }
    code
}
