//! TLS: who is trusted.

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};

use crate::Error;

/// The public web's certificate authorities, compiled in, and those in `extra_pem`.
pub(crate) fn public_roots(extra_pem: Option<&[u8]>) -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    if let Some(pem) = extra_pem {
        let before = roots.len();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate = certificate.map_err(|e| Error::CaCertificates(e.to_string()))?;
            roots.add(certificate).map_err(|e| Error::CaCertificates(e.to_string()))?;
        }
        if roots.len() == before {
            return Err(Error::CaCertificates("it holds no certificate".to_owned()));
        }
    }
    Ok(roots)
}

/// TLS 1.2 or 1.3 with `ring`, HTTP/1.1 only. Never touches the process-wide provider, which belongs to the binary.
pub(crate) fn client_config(roots: RootCertStore) -> Result<ClientConfig, Error> {
    let provider = rustls::crypto::ring::default_provider();
    let mut config = ClientConfig::builder_with_provider(provider.into())
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extra_authorities_are_added_or_refused() {
        let public = public_roots(None).unwrap().len();
        assert!(public > 50, "the public authorities are compiled in");
        let ca = rcgen::generate_simple_self_signed(vec!["ca.test".to_owned()]).unwrap().cert.pem();
        assert_eq!(public_roots(Some(ca.as_bytes())).unwrap().len(), public + 1);
        let broken = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";
        for bad in ["", "no pem at all", broken, "-----BEGIN CERTIFICATE-----\nMIIB\n"] {
            assert!(matches!(public_roots(Some(bad.as_bytes())), Err(Error::CaCertificates(_))), "{bad:?}");
        }
    }
}
