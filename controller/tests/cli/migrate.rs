use super::limpet;

#[test]
fn an_api_server_that_does_not_answer_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let kubeconfig = directory.path().join("kubeconfig");
    // The port discard (RFC 863), which has no listener by default.
    let text = "{apiVersion: v1, kind: Config, current-context: c, \
                clusters: [{name: c, cluster: {server: 'http://127.0.0.1:9'}}], \
                contexts: [{name: c, context: {cluster: c, user: u}}], users: [{name: u, user: {}}]}";
    std::fs::write(&kubeconfig, text).unwrap();
    let ran = limpet(&["migrate", "policies", "--kubeconfig", kubeconfig.to_str().unwrap()]).run();
    assert_eq!(ran.code, 3, "{ran:?}");
    let expected = "cannot list XBackendTrafficPolicy at http://127.0.0.1:9: ";
    assert!(
        ran.stderr.contains(expected) && ran.stderr.contains("refused"),
        "{ran:?}"
    );
}
