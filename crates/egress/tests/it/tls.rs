//! Certificates: the name is checked, and nothing is sent before it was.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use mailrail_egress::{Egress, Limits};
use mailrail_types::ErrorCode;
use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;

use crate::support::*;

const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";

struct Identity {
    pem: String,
    config: ServerConfig,
}

fn identity(change: impl FnOnce(&mut CertificateParams)) -> Identity {
    let mut params = CertificateParams::new(vec!["hook.acme.com".to_owned()]).unwrap();
    change(&mut params);
    let key = KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap();
    let config = ServerConfig::builder_with_provider(rustls::crypto::ring::default_provider().into())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], PrivateKeyDer::Pkcs8(key.serialize_der().into()))
        .unwrap();
    Identity { pem: certificate.pem(), config }
}

/// A TLS receiver that tells how many bytes of plain text each connection brought.
async fn receiver_with(config: ServerConfig) -> (Receiver, mpsc::Receiver<usize>) {
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let (told, seen) = mpsc::channel(8);
    let receiver = receiver(move |stream, _| {
        let (acceptor, told) = (acceptor.clone(), told.clone());
        async move {
            let mut bytes = 0;
            if let Ok(mut stream) = acceptor.accept(stream).await
                && let Some(request) = read_request(&mut stream).await
            {
                bytes = request.len();
                let _ = stream.write_all(OK).await;
                let _ = stream.shutdown().await;
            }
            let _ = told.send(bytes).await;
        }
    })
    .await;
    (receiver, seen)
}

/// Every name leads to loopback; `pem` is trusted.
fn trusting(pem: Option<&str>) -> Egress {
    let pem = pem.map(|text| text.as_bytes().to_vec());
    egress_with(move |c| {
        c.extra_ca_pem = pem;
        c.resolver = Some(Arc::new(Answers(|_: &str| Ok(ips("127.0.0.1")))));
    })
}

#[tokio::test]
async fn a_trusted_certificate_of_the_right_name_is_accepted() {
    let identity = identity(|_| {});
    let (receiver, mut seen) = receiver_with(identity.config).await;
    let url = format!("https://hook.acme.com:{}/", receiver.addr.port());
    let answer = post(&trusting(Some(&identity.pem)), &url).await;
    assert_eq!((answer.status, answer.error), (Some(200), None));
    assert!(seen.recv().await.unwrap() > 0);
}

#[tokio::test]
async fn n17_t26_certificates_that_lie_get_nothing() {
    let good = identity(|_| {});
    let expired = identity(|p| {
        p.not_before = date_time_ymd(2020, 1, 1);
        p.not_after = date_time_ymd(2021, 1, 1);
    });
    let cases = [
        ("another name", "other.acme.com", Some(good.pem.clone()), good.config.clone()),
        ("an address for a name", "127.0.0.1", Some(good.pem), good.config.clone()),
        ("signed by itself", "hook.acme.com", None, good.config),
        ("expired", "hook.acme.com", Some(expired.pem), expired.config),
    ];
    for (what, host, trusted, config) in cases {
        let (receiver, mut seen) = receiver_with(config).await;
        let url = format!("https://{host}:{}/", receiver.addr.port());
        let answer = post(&trusting(trusted.as_deref()), &url).await;
        assert_eq!((answer.status, answer.error), (None, Some(ErrorCode::TlsError)), "{what}");
        assert_eq!(seen.recv().await, Some(0), "{what}");
    }
}

#[tokio::test]
async fn n17_t37_a_receiver_of_http2_only_is_a_tls_error() {
    let mut identity = identity(|_| {});
    identity.config.alpn_protocols = vec![b"h2".to_vec()];
    let (receiver, _seen) = receiver_with(identity.config).await;
    let url = format!("https://hook.acme.com:{}/", receiver.addr.port());
    let answer = post(&trusting(Some(&identity.pem)), &url).await;
    assert_eq!((answer.status, answer.error), (None, Some(ErrorCode::TlsError)));
}

/// In TLS 1.3 the refusal comes after the client's side of the handshake is done.
#[tokio::test]
async fn n17_t26_a_demand_for_a_client_certificate_is_a_tls_error() {
    let trusted = identity(|_| {});
    let mut roots = rustls::RootCertStore::empty();
    let params = CertificateParams::new(vec!["ca.acme.com".to_owned()]).unwrap();
    roots.add(params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier =
        rustls::server::WebPkiClientVerifier::builder_with_provider(roots.into(), Arc::clone(&provider));
    let key = KeyPair::generate().unwrap();
    let own = CertificateParams::new(vec!["hook.acme.com".to_owned()]).unwrap().self_signed(&key).unwrap();
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier.build().unwrap())
        .with_single_cert(vec![own.der().clone()], PrivateKeyDer::Pkcs8(key.serialize_der().into()))
        .unwrap();
    let (receiver, _seen) = receiver_with(config).await;
    let url = format!("https://hook.acme.com:{}/", receiver.addr.port());
    let answer = post(&trusting(Some(&(own.pem() + &trusted.pem))), &url).await;
    assert_eq!((answer.status, answer.error), (None, Some(ErrorCode::TlsError)));
}

#[tokio::test]
async fn n17_t26_a_handshake_that_never_ends_and_a_plain_receiver() {
    let (told, mut first) = mpsc::channel(1);
    let silent = receiver(move |mut stream, _| {
        let told = told.clone();
        async move {
            let mut bytes = [0; 1];
            let _ = stream.read_exact(&mut bytes).await;
            let _ = told.send(bytes[0]).await;
            let mut rest = Vec::new();
            let _ = stream.read_to_end(&mut rest).await;
        }
    })
    .await;
    let egress = egress_with(|c| c.limits = Limits { tls: Duration::from_millis(300), ..Limits::default() });
    let answer = post(&egress, &format!("https://{}/", silent.addr)).await;
    assert_eq!((answer.status, answer.error), (None, Some(ErrorCode::TlsError)));
    assert_eq!(first.recv().await, Some(0x16), "a TLS handshake record, no plain text");
    let plain = receiver(|mut stream, _| async move {
        let _ = stream.write_all(OK).await;
        let _ = stream.shutdown().await;
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest).await;
    })
    .await;
    let answer = post(&egress, &format!("https://{}/", plain.addr)).await;
    assert_eq!((answer.status, answer.error), (None, Some(ErrorCode::TlsError)));
}

/// I10: the look before the first byte lies below TLS: no part of a withheld request is sent, nor when the connection closes.
#[tokio::test]
async fn i10_a_request_over_tls_is_withheld() {
    let identity = identity(|_| {});
    let acceptor = TlsAcceptor::from(Arc::new(identity.config));
    let may = Arc::new(AtomicBool::new(true));
    let (tell, mut told) = mpsc::channel(8);
    let switch = Arc::clone(&may);
    let receiver = receiver(move |stream, number| {
        let (acceptor, tell, switch) = (acceptor.clone(), tell.clone(), Arc::clone(&switch));
        async move {
            // Before the handshake of the second connection; on the first after a request was answered.
            switch.store(number == 0, Ordering::SeqCst);
            let mut bytes = 0;
            if let Ok(mut stream) = acceptor.accept(stream).await {
                let _ = read_request(&mut stream).await;
                switch.store(false, Ordering::SeqCst);
                let _ = stream.write_all(OK).await;
                let mut rest = Vec::new();
                let _ = stream.read_to_end(&mut rest).await;
                bytes = rest.len();
            }
            let _ = tell.send(bytes).await;
        }
    })
    .await;
    let egress = trusting(Some(&identity.pem));
    let asked = Arc::clone(&may);
    egress.ask_before_sending(move || asked.load(Ordering::SeqCst));
    let url = format!("https://hook.acme.com:{}/", receiver.addr.port());
    assert_eq!(post(&egress, &url).await.status, Some(200));
    assert!(post(&egress, &url).await.withheld, "on the kept connection");
    assert_eq!(told.recv().await, Some(0));
    assert!(post(&egress, &url).await.withheld, "in a handshake");
    assert_eq!(told.recv().await, Some(0));
}

/// I10: the handshake was allowed, and what came in since is no answer: the request itself is asked for.
#[tokio::test]
async fn i10_the_first_request_of_a_connection_is_asked_for_beside_its_handshake() {
    let identity = identity(|_| {});
    let acceptor = TlsAcceptor::from(Arc::new(identity.config));
    let (tell, mut told) = mpsc::channel(8);
    let receiver = receiver(move |stream, _| {
        let (acceptor, tell) = (acceptor.clone(), tell.clone());
        async move {
            let mut request = Vec::new();
            if let Ok(mut stream) = acceptor.accept(stream).await {
                let _ = stream.read_to_end(&mut request).await;
            }
            let _ = tell.send(request.len()).await;
        }
    })
    .await;
    let egress = trusting(Some(&identity.pem));
    let asked = AtomicUsize::new(0);
    egress.ask_before_sending(move || asked.fetch_add(1, Ordering::SeqCst) == 0);
    let url = format!("https://hook.acme.com:{}/", receiver.addr.port());
    assert!(post(&egress, &url).await.withheld);
    assert_eq!(told.recv().await, Some(0), "bytes of the request");
}
