//! Requests over a bare socket, for what the client of our own APIs does not speak.

/// A GET over a bare socket: the pages of the admin port are not JSON.
pub(crate) async fn http_get(address: &str, path: &str) -> String {
    try_get(address, path).await.unwrap_or_else(|error| panic!("{address}{path}: {error}"))
}

/// As [`http_get`], of a process that may not be there.
pub(crate) async fn try_get(address: &str, path: &str) -> std::io::Result<String> {
    try_request(address, "GET", path, &[], b"").await
}

/// One request over a bare socket, just as it is given; gives the whole answer, its head included.
pub(crate) async fn try_request(
    address: &str,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> std::io::Result<String> {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let mut head = format!("{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n");
    head += &format!("content-length: {}\r\n", body.len());
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    head += "\r\n";
    let mut stream = tokio::net::TcpStream::connect(address).await?;
    stream.write_all(head.as_bytes()).await?;
    // A body may not be taken to its end: the answer says why, and then the connection breaks.
    let _ = stream.write_all(body).await;
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer).await {
        Err(error) if answer.is_empty() || body.is_empty() => Err(error),
        _ => Ok(String::from_utf8_lossy(&answer).into_owned()),
    }
}
