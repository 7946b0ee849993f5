"""A certificate authority for one run, and what it signs."""

from .processes import run

KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-noenc", "-days", "2"]


class Certificates:
    """PEM files in a folder: `ca.crt`, `NAME.crt`, `NAME.key`."""

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir()
        # Without the defaults of the machine's own configuration.
        self.config = folder / "openssl.cnf"
        self.config.write_text("[req]\ndistinguished_name = dn\n[dn]\n")
        self.ca = folder / "ca.crt"
        self._openssl("req", "-x509", *KEY, "-config", self.config, "-subj", "/CN=mailrail test authority",
                      "-addext", "basicConstraints=critical,CA:TRUE", "-keyout", folder / "ca.key", "-out", self.ca)

    def issue(self, name, common_name, alternatives="IP:127.0.0.1,DNS:localhost"):
        """A certificate for server and client; gives the paths of certificate and key."""
        certificate, key = self.folder / f"{name}.crt", self.folder / f"{name}.key"
        self._openssl("req", "-x509", *KEY, "-config", self.config, "-subj", f"/CN={common_name}",
                      "-CA", self.ca, "-CAkey", self.folder / "ca.key",
                      "-addext", f"subjectAltName={alternatives}", "-addext", "basicConstraints=CA:FALSE",
                      "-addext", "extendedKeyUsage=serverAuth,clientAuth", "-keyout", key, "-out", certificate)
        return certificate, key

    def service_account_keys(self):
        """The pair that tokens of ServiceAccounts are signed with: private, public."""
        private, public = self.folder / "sa.key", self.folder / "sa.pub"
        self._openssl("genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", private)
        self._openssl("pkey", "-in", private, "-pubout", "-out", public)
        return private, public

    def _openssl(self, *args):
        run(["openssl", *args], None, f"openssl {args[0]}")
