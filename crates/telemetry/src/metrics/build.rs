//! Which build a process is.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::register::family;

/// The commit that was built, where the build was told: `MAILRAIL_REVISION`.
const REVISION: Option<&str> = option_env!("MAILRAIL_REVISION");

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct BuildLabels {
    version: &'static str,
    revision: &'static str,
}

/// `mailrail_build_info`: one sample, and it is 1.
pub(super) fn register(r: &mut Registry) {
    let help = "1, with the version of the process and the commit that it was built from (unknown where the build was not told)";
    let info = family::<BuildLabels, Gauge>(r, "build_info", help);
    let revision = REVISION.filter(|it| !it.is_empty()).unwrap_or("unknown");
    info.get_or_create(&BuildLabels { version: env!("CARGO_PKG_VERSION"), revision }).set(1);
}
