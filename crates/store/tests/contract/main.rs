//! The contract of the store: every test runs on SQLite, and on Postgres when `MAILRAIL_TEST_POSTGRES` names one.

mod apply;
mod base;
mod classes;
mod directory;
mod feed;
mod integrations;
mod open;
mod outage;
mod pause;
mod remove;
mod secrets;

/// Makes each named test of the calling module run on both databases, each time on an empty one of its own.
macro_rules! on_both {
    ($($name:ident),+ $(,)?) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                let base = crate::base::Base::sqlite();
                super::$name(&base).await;
            })+
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                let Some(base) = crate::base::Base::postgres().await else { return };
                super::$name(&base).await;
                base.remove().await;
            })+
        }
    };
}
pub(crate) use on_both;
